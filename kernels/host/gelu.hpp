// out = x/2 * (1 + erf(x / sqrt 2)), the exact form, with which BERT was trained, or the tanh form of
// families that were trained with that: x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))). They differ by up
// to 5e-4. CLIP was trained with a third one, x * sigmoid(1.702 x). erfc is the rational approximation 7.1.26
// of Abramowitz and Stegun, off by at most 1.5e-7. Source: Hendrycks and Gimpel 1606.08415. And the squared
// ReLU, max(x, 0)^2: activations without a gate.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

/// erfc(z) = (a1 t + a2 t^2 + ... + a5 t^5) e^(-z^2) with t = 1 / (1 + p z), for z >= 0.
inline constexpr float erfc_p = 0.3275911F;
inline constexpr float erfc_a[5] = {0.254829592F, -0.284496736F, 1.421413741F, -1.453152027F, 1.061405429F};
inline constexpr float inverse_root_two = 0.70710678F;
inline constexpr float gelu_tanh_root = 0.79788456F;  // sqrt(2/pi)
inline constexpr float gelu_tanh_cube = 0.044715F;

inline constexpr float gelu_sigmoid_factor = 1.702F;

enum class gelu_form { exact, tanh, sigmoid };

struct gelu_args {
  const float* x = nullptr;  ///< [rows][width]
  float* out = nullptr;      ///< [rows][width], may be x
  std::uint32_t rows = 0;
  std::uint32_t width = 0;
  gelu_form form = gelu_form::exact;
  bool squared_relu = false;  ///< instead
};

namespace host {
class thread_pool;
void gelu(const gelu_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
