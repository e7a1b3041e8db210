#include "app/quantize/value_rows.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "app/quantize/number_formats.hpp"
#include "engine/base/ensure.hpp"
#include "kernels/host/half.hpp"

namespace orcd::app {
namespace {

constexpr std::size_t block = 32;
constexpr std::size_t block_bytes = 34;

struct float_row {
  source_type type;
  const std::byte* from;
  std::size_t cols;

  /// Zero behind the end.
  [[nodiscard]] float at(std::size_t i) const noexcept { return i < cols ? value_at(type, from, i) : 0.0F; }
};

bool to_f32(const float_row& row, std::size_t cols, std::byte* out) noexcept {
  bool finite = true;
  for (std::size_t i = 0; i < cols; ++i) {
    const float x = row.at(i);
    finite &= std::isfinite(x);
    std::memcpy(out + 4 * i, &x, sizeof x);
  }
  return finite;
}

bool to_bf16(const float_row& row, std::size_t cols, std::byte* out) noexcept {
  bool finite = true;
  for (std::size_t i = 0; i < cols; ++i) {
    const float x = row.at(i);
    const std::uint16_t bits = kernels::host::float_to_bfloat(x);
    // A value just below the largest f32 rounds to an infinity.
    finite &= std::isfinite(x) && (bits & 0x7f80U) != 0x7f80U;
    std::memcpy(out + 2 * i, &bits, sizeof bits);
  }
  return finite;
}

bool to_q8_0(const float_row& row, std::size_t cols, std::byte* out) noexcept {
  bool finite = true;
  for (std::size_t begin = 0; begin < cols; begin += block, out += block_bytes) {
    std::array<float, block> x{};
    float most = 0.0F;
    for (std::size_t i = 0; i < block; ++i) {
      x[i] = row.at(begin + i);
      finite &= std::isfinite(x[i]);
      most = std::max(most, std::fabs(x[i]));
    }
    const float d = most / 127.0F;
    const float inverse = d > 0.0F ? 1.0F / d : 0.0F;
    const std::uint16_t bits = kernels::host::float_to_half(d);
    finite &= (bits & 0x7c00U) != 0x7c00U;
    std::memcpy(out, &bits, sizeof bits);
    for (std::size_t i = 0; i < block && finite; ++i) {
      // The inverse of the least d is infinite; such values are far below what the f16 scale can say.
      const float q = std::isfinite(inverse) ? std::round(x[i] * inverse) : 0.0F;
      out[2 + i] = static_cast<std::byte>(static_cast<std::int8_t>(std::clamp(q, -127.0F, 127.0F)));
    }
  }
  return finite;
}

}  // namespace

bool convert_row(source_type from, std::span<const std::byte> values, engine::ggml_type to,
                 std::size_t out_cols, std::span<std::byte> out) noexcept {
  const engine::type_traits& traits = engine::traits_of(to);
  const float_row row{from, values.data(), values.size() / bytes_of(from)};
  ORCD_ENSURE(out_cols % traits.block_elems == 0 && row.cols <= out_cols);
  ORCD_ENSURE(out.size() == engine::row_bytes(traits, out_cols));
  if (to == engine::ggml_type::f32) return to_f32(row, out_cols, out.data());
  if (to == engine::ggml_type::bf16) return to_bf16(row, out_cols, out.data());
  return to_q8_0(row, out_cols, out.data());
}

}  // namespace orcd::app
