// The manifest of a quantization: which tensors of which shards become what. Written by the Trillim SDK, read
// here; little-endian and packed. Two layouts are in use, told apart by which of them the file's bytes fill
// exactly. Source: the DarkNet-Trillim interface, section 6; docs/pipe.md has both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::app {

enum class tensor_action : std::uint8_t {
  raw = 0,        ///< kept: bf16, norms and biases as f32
  ternarize = 1,  ///< values become -1, 0 and 1 times one scale
  embedding = 2,  ///< one byte a value
  repack = 3      ///< ternary already, in one value or four a byte
};

enum class source_type : std::uint8_t { f32 = 0, f16 = 1, bf16 = 2, i8 = 3, u8 = 4 };

[[nodiscard]] constexpr std::uint64_t bytes_of(source_type type) noexcept {
  return type == source_type::f32 ? 4 : type == source_type::f16 || type == source_type::bf16 ? 2 : 1;
}

/// Bytes of a shard, from its first byte on.
struct byte_range {
  std::uint16_t shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

struct manifest_tensor {
  tensor_action action = tensor_action::raw;
  source_type type = source_type::bf16;
  std::uint32_t rows = 0;  ///< as stored: of u8 a quarter of the matrix's
  std::uint32_t cols = 0;  ///< 1 for what has one dimension
  std::uint32_t padded_rows = 0;
  std::uint32_t padded_cols = 0;
  byte_range data;
  std::optional<byte_range> scale;
};

struct manifest_matrix {
  source_type type = source_type::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  byte_range data;
};

struct lora_target {
  manifest_matrix a;  ///< [rank][in]
  manifest_matrix b;  ///< [out][rank]
};

/// In the order of the interface: k, v, q, o, gate, up, down.
inline constexpr std::uint32_t lora_targets = 7;

struct manifest_lora {
  std::uint32_t layers = 0;
  double scale = 0.0;                               ///< alpha / rank
  std::vector<std::optional<lora_target>> targets;  ///< [layers][lora_targets]
};

struct manifest {
  std::vector<std::string> shards;  ///< paths
  std::vector<manifest_tensor> tensors;
  std::optional<manifest_lora> lora;
};

struct manifest_limits {
  static constexpr std::uint64_t bytes = 16U << 20U;
  static constexpr std::uint32_t shards = 512;
  static constexpr std::uint32_t path_bytes = 4096;
  static constexpr std::uint32_t tensors = 65'536;
  static constexpr std::uint32_t layers = 512;
  static constexpr std::size_t stored =
      131'072;  ///< tensors in all shards together, so that memory has a bound
  static constexpr std::uint32_t extent = 1U << 20U;  ///< rows and columns
};

/// Reads one whole manifest; `name` is its name in messages. Every count, code and size is checked, and that
/// sizes follow from rows, columns and type; not what the shards hold.
[[nodiscard]] engine::result<manifest> parse_manifest(std::span<const std::byte> image,
                                                      std::string_view name);
/// Reads and parses a file.
[[nodiscard]] engine::result<manifest> read_manifest(const std::string& path);

}  // namespace orcd::app
