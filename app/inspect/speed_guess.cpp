#include "app/inspect/speed_guess.hpp"

#include <array>

#include "engine/model/model_tensors.hpp"

namespace orcd::app {
namespace {

/// Measured with the target models (docs/performance.md): bytes a microsecond of a kernel that only reads,
/// and microseconds a layer beside its reads.
struct card_figures {
  std::string_view name;
  double bytes_per_us = 0.0;
  double one_kernel_dense = 0.0, one_kernel_experts = 0.0;
  double many_kernels_dense = 0.0, many_kernels_experts = 0.0;
};

constexpr std::array cards{card_figures{"H100", 3.05e6, 9.0, 16.0, 18.0, 31.0},
                           card_figures{"H200", 4.48e6, 13.0, 20.0, 20.0, 33.0}};

double layer_time(const card_figures& card, bool one_kernel, bool experts) {
  if (one_kernel) return experts ? card.one_kernel_experts : card.one_kernel_dense;
  return experts ? card.many_kernels_experts : card.many_kernels_dense;
}

}  // namespace

std::vector<speed_guess> guess_speeds(const engine::model& m, bool one_kernel) {
  const auto bytes = static_cast<double>(engine::bytes_read_per_token(m));
  std::vector<speed_guess> out;
  for (const card_figures& card : cards) {
    const double reading = bytes / card.bytes_per_us;
    double us = reading;
    for (const engine::layer_spec& layer : m.spec.layers)
      us += layer_time(card, one_kernel, layer.ffn == engine::ffn_kind::moe);
    out.push_back({card.name, 1e6 / us, reading / us});
  }
  return out;
}

}  // namespace orcd::app
