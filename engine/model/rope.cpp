#include "engine/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "engine/base/ensure.hpp"

namespace orcd::engine {
namespace {

/// The (fractional) pair index whose wave turns `rotations` times within the original context.
double correction_dim(const rope_spec& rope, double rotations) {
  return rope.dims * std::log(rope.original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(rope.base));
}

/// For each pair, the share of its trained frequency that is kept: 1 for the fast ones, 0 for the slow ones.
std::vector<double> yarn_ramp(const rope_spec& rope) {
  double low = correction_dim(rope, rope.beta_fast);
  double high = correction_dim(rope, rope.beta_slow);
  if (rope.round_correction_dims) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(0.0, low);
  high = std::min(rope.dims - 1.0, high);
  std::vector<double> ramp(rope.dims / 2);
  for (std::size_t i = 0; i < ramp.size(); ++i) {
    const double slope = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    ramp[i] = 1.0 - std::clamp(slope, 0.0, 1.0);
  }
  return ramp;
}

double magnitude_of(const rope_spec& rope) {
  if (rope.scaling == rope_scaling::none) return 1.0;
  const bool extrapolates = rope.scaling == rope_scaling::yarn && rope.ext_factor > 0.0 && rope.factor > 1.0;
  if (!extrapolates) return rope.attn_factor;
  const double growth = 0.1 * std::log(rope.factor);
  return rope.attn_factor * (1.0 + growth) / (1.0 + rope.log_multiplier * growth);
}

std::vector<float> values_of(const tensor_view& tensor) {
  ORCD_ENSURE(tensor.type == ggml_type::f32);  // load_model checked it
  std::vector<float> out(tensor.elements());
  std::memcpy(out.data(), tensor.data, out.size() * sizeof(float));
  return out;
}

std::uint8_t axis_of(const rope_spec& rope, std::uint32_t pair) noexcept {
  const auto [time, lines, columns] = rope.sections;
  if (rope.axes == rope_axes::by_section) return pair < time ? 0 : pair < time + lines ? 1 : 2;
  if (pair % 3 == 1 && pair < 3 * lines) return 1;
  return pair % 3 == 2 && pair < 3 * columns ? 2 : 0;
}

}  // namespace

rope_table make_rope_table(const rope_spec& rope, const std::vector<float>& freq_factors) {
  if (rope.dims == 0) return {};
  ORCD_ENSURE(rope.dims % 2 == 0 && rope.factor > 0.0 && rope.base > 0.0);
  const bool divided = rope.file_factors && !freq_factors.empty();
  ORCD_ENSURE(!divided || freq_factors.size() == rope.dims / 2);
  const double scale = rope.scaling == rope_scaling::none ? 1.0 : 1.0 / rope.factor;
  const bool yarn = rope.scaling == rope_scaling::yarn;
  const std::vector<double> ramp = yarn ? yarn_ramp(rope) : std::vector<double>();
  rope_table out;
  out.inv_freq.resize(rope.dims / 2);
  for (std::size_t i = 0; i < out.inv_freq.size(); ++i) {
    const double divisor = divided ? static_cast<double>(freq_factors[i]) : 1.0;
    const double trained = std::pow(rope.base, -2.0 * static_cast<double>(i) / rope.dims) / divisor;
    const double kept = yarn ? ramp[i] * rope.ext_factor : 0.0;
    out.inv_freq[i] = static_cast<float>(trained * (scale * (1.0 - kept) + kept));
  }
  out.magnitude = static_cast<float>(magnitude_of(rope));
  if (rope.axes != rope_axes::one)
    for (std::uint32_t i = 0; i < rope.dims / 2; ++i) out.axes.push_back(axis_of(rope, i));
  return out;
}

double query_scale_at(const model_spec& spec, std::uint32_t position) noexcept {
  if (spec.query_scale == 0.0 || spec.query_scale_period == 0) return 1.0;
  const std::uint32_t periods = position / spec.query_scale_period;
  return 1.0 + spec.query_scale * std::log(1.0 + periods);
}

std::vector<float> rope_freq_factors(const model& m, std::uint32_t context) {
  if (m.weights.rope_freqs) return values_of(m.weights.rope_freqs);
  const rope_spec& rope = m.spec.layers.front().rope;
  if (rope.scaling != rope_scaling::longrope) return {};
  const bool extended = context > rope.original_context;
  return values_of(extended ? m.weights.rope_factors_long : m.weights.rope_factors_short);
}

}  // namespace orcd::engine
