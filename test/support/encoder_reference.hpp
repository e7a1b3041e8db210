// LayerNorm and GELU in double precision, for the tests of both backends' kernels.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace orcd::test {

[[nodiscard]] inline std::vector<float> normal_values(std::size_t count, float centre, float spread,
                                                      unsigned seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal(centre, spread);
  std::vector<float> out(count);
  for (float& v : out) v = normal(bits);
  return out;
}

[[nodiscard]] inline std::vector<double> layer_norm_reference(std::span<const float> row,
                                                              std::span<const float> weight,
                                                              std::span<const float> bias, double eps) {
  double mean = 0.0, squares = 0.0;
  for (const float v : row) mean += v;
  mean /= static_cast<double>(row.size());
  for (const float v : row) squares += (v - mean) * (v - mean);
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(row.size()) + eps);
  std::vector<double> out;
  for (std::size_t i = 0; i < row.size(); ++i) out.push_back((row[i] - mean) * scale * weight[i] + bias[i]);
  return out;
}

[[nodiscard]] inline double gelu_reference(double v) {
  return 0.5 * v * std::erfc(-v / std::sqrt(2.0));
}

}  // namespace orcd::test
