#include "app/inspect/speed_guess.hpp"

#include <array>

#include "engine/model/model_tensors.hpp"

namespace orcd::app {
namespace {

/// Microseconds of a token: `us_per_byte` times its weights, and `layer_us` times the layers.
struct path_time {
  double us_per_byte = 0.0;
  double layer_us = 0.0;
};

/// Fitted to the models that were measured (docs/performance.md, docs/models.md).
struct card_figures {
  std::string_view name;
  double read_rate = 0.0;  ///< bytes a microsecond of a kernel that only reads
  path_time one_kernel, one_kernel_experts, many_kernels, many_kernels_experts;
};

constexpr card_figures card(std::string_view name, double read_rate, double share_dense, double layer_dense,
                            double layer_experts) {
  // Of many kernels the few-column products reach some 75 % of the rate (an H200 alone was measured): nine
  // dense models of 7B to 35B took 0.9 to 1.3 times what this says.
  const path_time many{1.3 / read_rate, 25.0};
  const path_time many_experts{1.7 / read_rate, 38.0};
  const double us_per_byte = 1.0 / (share_dense * read_rate);
  return {name, read_rate, {us_per_byte, layer_dense}, {us_per_byte, layer_experts}, many, many_experts};
}

constexpr std::array cards{card("H100", 3.05e6, 0.9, 8.0, 13.0), card("H200", 4.48e6, 0.78, 10.5, 15.5)};

const path_time& time_of(const card_figures& card, bool one_kernel, bool experts) {
  if (one_kernel) return experts ? card.one_kernel_experts : card.one_kernel;
  return experts ? card.many_kernels_experts : card.many_kernels;
}

}  // namespace

std::vector<speed_guess> guess_speeds(const engine::model& m, bool one_kernel) {
  const auto bytes = static_cast<double>(engine::bytes_read_per_token(m));
  std::vector<speed_guess> out;
  for (const card_figures& card : cards) {
    const path_time& time = time_of(card, one_kernel, m.spec.experts > 0);
    const double us = bytes * time.us_per_byte + static_cast<double>(m.spec.layers.size()) * time.layer_us;
    out.push_back({card.name, 1e6 / us, bytes / card.read_rate / us});
  }
  return out;
}

}  // namespace orcd::app
