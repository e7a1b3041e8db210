#include "kernels/host/ternary_scan.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/host/matmul.hpp"
#include "kernels/product/quant_blocks.hpp"

namespace orcd::kernels::host {
namespace {

using engine::ggml_type;

constexpr std::uint64_t piece_bytes = 4096;

/// Whether a pair of bits, the lower at an even place, is 3.
constexpr std::uint64_t three_in(std::uint64_t word) noexcept {
  return word & word >> 1U & 0x5555555555555555U;
}

bool has_invalid_code(const std::byte* data, std::uint64_t bytes) {
  std::uint64_t any = 0;
  std::uint64_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word;
    std::memcpy(&word, data + at, sizeof word);
    any |= three_in(word);
  }
  for (; at < bytes; ++at) any |= three_in(std::to_integer<std::uint64_t>(data[at]));
  return any != 0;
}

struct scale_place {
  std::size_t block_bytes, offset;
};

scale_place place_of(ggml_type type) {
  if (type == ggml_type::tq1_0) return {sizeof(block_tq1_0), offsetof(block_tq1_0, d)};
  return {sizeof(block_tq2_0), offsetof(block_tq2_0, d)};
}

std::uint16_t scale_bits(const std::byte* block, const scale_place& place) {
  std::uint16_t bits;
  std::memcpy(&bits, block + place.offset, sizeof bits);
  return bits;
}

/// Both zeros are one.
constexpr bool is_zero(std::uint16_t half) noexcept {
  return (half & 0x7fffU) == 0;
}

/// With another d: whether every value is zero all the same.
bool codes_are_zero(ggml_type type, const std::byte* block, const scale_place& place) {
  constexpr std::uint32_t values = 256;
  std::array<std::byte, sizeof(block_tq2_0)> copy{};
  std::memcpy(copy.data(), block, place.block_bytes);
  const std::uint16_t one = 0x3c00;
  std::memcpy(copy.data() + place.offset, &one, sizeof one);
  std::array<float, values> decoded;
  dequantize_row(type, copy.data(), values, decoded.data());
  return std::all_of(decoded.begin(), decoded.end(), [](float v) { return v == 0.0F; });
}

/// As f32.
float half_value(std::uint16_t bits) {
  std::array<std::byte, 2> half;
  std::memcpy(half.data(), &bits, sizeof bits);
  float value = 0.0F;
  dequantize_row(ggml_type::f16, half.data(), 1, &value);
  return value;
}

}  // namespace

std::optional<std::uint64_t> find_invalid_code(const std::byte* data, std::uint64_t bytes) {
  for (std::uint64_t at = 0; at < bytes; at += piece_bytes) {
    const std::uint64_t count = std::min(piece_bytes, bytes - at);
    if (!has_invalid_code(data + at, count)) continue;
    const std::byte* const bad = std::find_if(data + at, data + at + count, [](std::byte b) {
      return three_in(std::to_integer<std::uint64_t>(b)) != 0;
    });
    return static_cast<std::uint64_t>(bad - data);
  }
  return std::nullopt;
}

std::optional<float> common_scale(ggml_type type, const std::byte* data, std::uint64_t blocks) {
  const scale_place place = place_of(type);
  std::uint16_t common = 0;
  for (std::uint64_t i = 0; i < blocks; ++i) {
    const std::byte* const block = data + i * place.block_bytes;
    const std::uint16_t bits = scale_bits(block, place);
    if (bits == common && !is_zero(bits)) continue;
    if ((bits & 0x7c00U) == 0x7c00U) return std::nullopt;
    if (is_zero(bits)) {
      if (!codes_are_zero(type, block, place)) return std::nullopt;
    } else if (is_zero(common)) {
      common = bits;
    } else {
      return std::nullopt;
    }
  }
  return half_value(common);
}

}  // namespace orcd::kernels::host
