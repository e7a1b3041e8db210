// Activations to int8, of one x86 level; definition in kernels/host/ternary.hpp.
#include "kernels/host/isa/sixteens.hpp"
#include "kernels/host/kernel_table.hpp"
#include "kernels/host/ternary.hpp"

namespace orcd::kernels::host::ORCD_ISA {
namespace {

// Added to a number of small magnitude it leaves no room for a fraction: the sum's lowest bits are the number
// rounded to the nearest integer, ties to even.
constexpr float integer_place = 0x1.8p23F;
constexpr std::int32_t integer_place_bits = 0x4b400000;

ORCD_INLINE float largest_magnitude(const float* x, std::uint32_t width) {
  float_lanes most = splat(int8_least_range);
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) {
    most = larger(most, bits_to_float(float_bits(load_some(x + i, count)) & 0x7fffffff));
  });
  return fold_larger(most);
}

}  // namespace

void round_row(const round_args& a, std::uint32_t row) {
  const float* x = a.x + row * a.x_stride;
  std::int8_t* values = a.values + std::size_t{row} * a.width;
  const float scale = int8_largest / largest_magnitude(x, a.width);
  std::int32_t sum = 0;
  each_sixteen(a.width, [&](std::uint32_t i, std::uint32_t count) {
    // The bounds come first, so that NaN becomes one of them.
    const float_lanes bounded =
        smaller(splat(int8_largest), larger(splat(-int8_largest - 1.0F), scale * load_some(x + i, count)));
    std::int32_t rounded[lane_count];
    const int_lanes integers = float_bits(bounded + integer_place) - integer_place_bits;
    __builtin_memcpy(rounded, &integers, sizeof rounded);
    for (std::uint32_t j = 0; j < count; ++j) {
      values[i + j] = static_cast<std::int8_t>(rounded[j]);
      sum += rounded[j];
    }
  });
  a.scales[row] = scale;
  a.sums[row] = sum;
}

}  // namespace orcd::kernels::host::ORCD_ISA
