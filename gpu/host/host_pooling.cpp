#include "gpu/host/host_pooling.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/sampling/portable_exp.hpp"
#include "gpu/host/host_tensors.hpp"

namespace orcd::gpu {
namespace {

using engine::pooling_kind;

/// Which state a ranking model's classifier reads: the first token's, or the last one's if attention is
/// causal.
pooling_kind gathered_as(const engine::model_spec& spec) {
  ORCD_ENSURE(spec.pooling.has_value());
  if (*spec.pooling != pooling_kind::rank) return *spec.pooling;
  return spec.causal ? pooling_kind::last : pooling_kind::cls;
}

/// (1 - e^-2|x|) / (1 + e^-2|x|) with the sign of x: the same bits on every CPU.
float portable_tanh(float x) {
  const float u = engine::portable_exp(std::max(engine::portable_exp_lowest, -2.0F * std::fabs(x)));
  return std::copysign((1.0F - u) / (1.0F + u), x);
}

/// Sums in double, in the order of columns.
void multiply(const engine::tensor_view& matrix, const engine::tensor_view& bias, std::span<const float> x,
              std::span<float> y) {
  const kernels::weight_matrix weights = matrix_of(matrix);
  std::vector<float> row(weights.cols);
  for (std::uint32_t r = 0; r < weights.rows; ++r) {
    kernels::host::dequantize_row(weights, r, row.data());
    double sum = 0.0;
    for (std::uint32_t c = 0; c < weights.cols; ++c) sum += static_cast<double>(row[c]) * x[c];
    y[r] = static_cast<float>(sum) + (bias ? floats_of(bias)[r] : 0.0F);
  }
}

/// What a ranking model's classifier gives for one state: [classes].
std::vector<float> classified(const engine::model& m, std::span<const float> state) {
  std::vector<float> hidden(state.begin(), state.end());
  if (m.weights.cls) {
    multiply(m.weights.cls, m.weights.cls_bias, state, hidden);
    for (float& v : hidden) v = portable_tanh(v);
  }
  std::vector<float> out(m.spec.classes);
  multiply(m.weights.cls_output, m.weights.cls_output_bias, hidden, out);
  return out;
}

}  // namespace

host_pooling::host_pooling(const engine::model& m, std::uint32_t slots)
    : model_(m), width_(m.spec.embedding), kind_(gathered_as(m.spec)), slots_(slots) {}

void host_pooling::add(std::uint32_t slot, std::uint32_t position, std::span<const float> states) {
  gathered& g = slots_[slot];
  if (position == 0) {
    g.sums.assign(kind_ == pooling_kind::mean ? width_ : 0, 0.0);
    g.kept.clear();
  }
  switch (kind_) {
    case pooling_kind::none: g.kept.insert(g.kept.end(), states.begin(), states.end()); return;
    case pooling_kind::mean:
      for (std::size_t i = 0; i < states.size(); ++i) g.sums[i % width_] += states[i];
      return;
    case pooling_kind::cls:
      if (position == 0) g.kept.assign(states.begin(), states.begin() + width_);
      return;
    default: g.kept.assign(states.end() - width_, states.end());
  }
}

engine::pooled_values host_pooling::take(std::uint32_t slot, std::uint32_t tokens) {
  gathered& g = slots_[slot];
  if (kind_ == pooling_kind::mean) {
    for (const double sum : g.sums) g.kept.push_back(static_cast<float>(sum / tokens));
  }
  auto states = std::exchange(g.kept, {});
  if (model_.spec.pooling == pooling_kind::rank) states = classified(model_, states);
  return std::make_shared<const std::vector<float>>(std::move(states));
}

}  // namespace orcd::gpu
