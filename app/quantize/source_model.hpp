// The tensors that a manifest names, found in its shards: mapped, and checked against the shards' own
// headers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/quantize/manifest.hpp"
#include "app/quantize/model_config.hpp"
#include "app/quantize/tensor_names.hpp"
#include "engine/safetensors/safetensors_file.hpp"

namespace orcd::app {

/// A matrix as stored, or a row of values.
struct source_matrix {
  source_type type = source_type::bf16;
  std::uint64_t rows = 0;  ///< of what is packed: a quarter of the matrix's
  std::uint64_t cols = 0;
  std::span<const std::byte> data;

  /// Codes in a byte, each of another quarter of the matrix's rows.
  [[nodiscard]] unsigned groups() const noexcept { return type == source_type::u8 ? 4 : 1; }
  [[nodiscard]] std::uint64_t matrix_rows() const noexcept { return rows * groups(); }
};

struct source_tensor {
  tensor_name name;
  std::string file_name;  ///< in the shard, for messages
  tensor_action action = tensor_action::raw;
  source_matrix values;
  float scale = 1.0F;  ///< multiplies the codes of what is packed
};

struct source_target {
  std::uint32_t layer = 0;
  tensor_role role = tensor_role::attn_k;
  std::string file_name;
  source_matrix a, b;
};

struct source_model {
  std::vector<engine::safetensors_file> shards;  ///< what the spans point into
  std::vector<source_tensor> tensors;            ///< in the order of tensor_name::order(), each once
  std::vector<source_target> targets;
  double lora_scale = 0.0;
  model_config config;  ///< of the folder of the first tensor's shard; defaults where there are no tensors

  /// An error when a shard was cut or written to since it was opened.
  [[nodiscard]] engine::result<void> check_intact() const;
};

/// Opens the shards and finds each entry: a tensor must begin where the entry says, with its type, shape and
/// size, under a name of a supported model, in order and once. `divide` by the scale or multiply is as the
/// config.json beside the shard says.
[[nodiscard]] engine::result<source_model> open_source(const manifest& entries);

/// `tensors` is how many there are with those of the shard `path`; an error beyond manifest_limits::stored.
[[nodiscard]] engine::result<void> check_stored(const std::string& path, std::size_t tensors);

/// The manifest of a trainer's folder: of its model.safetensors or of the shards of its index.
[[nodiscard]] engine::result<manifest> make_manifest(const std::string& folder, bool tied,
                                                     bool bytes_for_embedding);

}  // namespace orcd::app
