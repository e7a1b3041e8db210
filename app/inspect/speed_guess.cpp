#include "app/inspect/speed_guess.hpp"

#include <algorithm>
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

/// The slower memory first. All that differs between the two is memory, of which 3.35 and 4.8 TB/s are
/// promised.
constexpr std::array cards{card("H100 SXM", 3.05e6, 0.9, 8.0, 13.0), card("H200", 4.48e6, 0.78, 10.5, 15.5)};

const path_time& time_of(const card_figures& card, bool one_kernel, bool experts) {
  if (one_kernel) return experts ? card.one_kernel_experts : card.one_kernel;
  return experts ? card.many_kernels_experts : card.many_kernels;
}

}  // namespace

std::vector<speed_guess> guess_speeds(const engine::model& m, bool one_kernel) {
  const auto bytes = static_cast<double>(engine::bytes_read_per_token(m));
  const auto layers = static_cast<double>(m.spec.layers.size());
  std::vector<speed_guess> out;
  double fastest_us = 0.0;
  for (auto card = cards.rbegin(); card != cards.rend(); ++card) {
    const path_time& time = time_of(*card, one_kernel, m.spec.experts > 0);
    // The lines of the two cross for small models; with slower memory no token takes less.
    fastest_us = std::max(fastest_us, bytes * time.us_per_byte + layers * time.layer_us);
    out.push_back({card->name, 1e6 / fastest_us, bytes / card->read_rate / fastest_us});
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace orcd::app
