// The block formats of GGUF tensors: names, ids and sizes. Blocks: kernels/product/quant_blocks.hpp.
// Source: GGUF v3; the ids are those of the file format and never change meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace orcd::engine {

enum class ggml_type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  bf16 = 30,
  tq1_0 = 34,
  tq2_0 = 35,
  i2_s = 36,  ///< of BitNet forks; the original removed the id
  mxfp4 = 39,
  nvfp4 = 40,
  q1_0 = 41,
  q2_0 = 42,
};

/// Layout of one block: `block_elems` consecutive values of a row in `block_bytes` bytes. A tensor is its
/// rows, then `trailer_bytes`, of which the first four are an f32 that multiplies every value.
struct type_traits {
  ggml_type type;
  std::string_view name;  ///< as users know it: "Q4_K"
  std::uint32_t block_elems;
  std::uint32_t block_bytes;
  std::uint32_t trailer_bytes = 0;
};

/// Every supported type, in the order messages list them.
[[nodiscard]] std::span<const type_traits> supported_types() noexcept;

/// The traits of a supported type.
[[nodiscard]] const type_traits& traits_of(ggml_type type) noexcept;

/// The supported type with this id; nullopt when there is none.
[[nodiscard]] std::optional<ggml_type> type_from_id(std::uint32_t id) noexcept;

/// The name of any id that the format defines, supported or not ("IQ1_S", "removed(4)"), for
/// messages.
[[nodiscard]] std::string_view known_type_name(std::uint32_t id) noexcept;

/// Bytes of one row of `cols` values; `cols` must be a multiple of the block size.
[[nodiscard]] constexpr std::uint64_t row_bytes(const type_traits& t, std::uint64_t cols) noexcept {
  return cols / t.block_elems * t.block_bytes;
}

}  // namespace orcd::engine
