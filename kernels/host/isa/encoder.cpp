// What encoder models need of one x86 level; definitions in kernels/host/{layer_norm,gelu}.hpp.
#include "kernels/host/gelu.hpp"
#include "kernels/host/isa/exponential.hpp"
#include "kernels/host/isa/hyperbolic.hpp"
#include "kernels/host/isa/sixteens.hpp"
#include "kernels/host/kernel_table.hpp"
#include "kernels/host/layer_norm.hpp"

namespace orcd::kernels::host::ORCD_ISA {
namespace {

alignas(64) constexpr float ones[lane_count] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/// x - mean, 0 in the lanes that the row does not have.
ORCD_INLINE float_lanes centred(const float* x, float mean, std::uint32_t count) {
  return load_some(x, count) - mean * load_some(ones, count);
}

ORCD_INLINE float_lanes erfc(float_lanes z) {
  const float_lanes t = splat(1.0F) / (erfc_p * z + 1.0F);
  float_lanes sum = erfc_a[4] * t + erfc_a[3];
  for (int i = 2; i >= 0; --i) sum = sum * t + erfc_a[i];
  return sum * t * exponential(-1.0F * z * z);
}

/// `bias` may be null.
void norm_vector(const float* x, const float* weight, const float* bias, float* out, std::uint32_t width,
                 float eps) {
  float_lanes sum = splat(0.0F);
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) { sum = sum + load_some(x + i, count); });
  const float mean = fold(sum) / static_cast<float>(width);
  float_lanes squares = splat(0.0F);
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) {
    const float_lanes d = centred(x + i, mean, count);
    squares = squares + d * d;
  });
  const float scale = 1.0F / __builtin_sqrtf(fold(squares) / static_cast<float>(width) + eps);
  each_sixteen(width, [&](std::uint32_t i, std::uint32_t count) {
    const float_lanes scaled = scale * centred(x + i, mean, count) * load_some(weight + i, count);
    store_some(out + i, bias == nullptr ? scaled : scaled + load_some(bias + i, count), count);
  });
}

}  // namespace

void layer_norm_row(const layer_norm_args& a, std::uint32_t row) {
  for (std::uint32_t head = 0; head < a.heads; ++head) {
    const std::size_t offset = std::size_t{head} * a.width;
    const std::size_t weights = std::size_t{head} * a.weight_stride;
    norm_vector(a.x + row * a.x_stride + offset, a.weight + weights,
                a.bias == nullptr ? nullptr : a.bias + weights, a.out + row * a.out_stride + offset, a.width,
                a.eps);
  }
}

void gelu_row(const gelu_args& a, std::uint32_t row) {
  const float* x = a.x + std::size_t{row} * a.width;
  float* out = a.out + std::size_t{row} * a.width;
  each_sixteen(a.width, [&](std::uint32_t i, std::uint32_t count) {
    const float_lanes v = load_some(x + i, count);
    if (a.squared_relu) {
      const float_lanes positive = larger(v, splat(0.0F));
      return store_some(out + i, positive * positive, count);
    }
    if (a.form == gelu_form::tanh) return store_some(out + i, gelu_tanh(v), count);
    if (a.form == gelu_form::sigmoid)
      return store_some(out + i, v / (exponential(-gelu_sigmoid_factor * v) + 1.0F), count);
    const float_lanes tail = 0.5F * erfc(inverse_root_two * larger(v, -1.0F * v));
    const float_lanes positive = larger(v, splat(0.0F)) * (splat(1.0F) - tail);
    store_some(out + i, positive + smaller(v, splat(0.0F)) * tail, count);
  });
}

}  // namespace orcd::kernels::host::ORCD_ISA
