// One column through the host's router, for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/host/moe.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::test {

struct router {
  std::vector<float> logits;
  std::vector<float> bias = {};
  kernels::expert_weighting weighting = kernels::expert_weighting::sigmoid;
  kernels::expert_groups groups = {};
  float scale = 1.0F;

  struct result {
    std::vector<std::uint32_t> chosen;
    std::vector<float> weights;
  };
  [[nodiscard]] result route(std::uint32_t used) const {
    kernels::host::thread_pool pool(1);
    result out{std::vector<std::uint32_t>(used), std::vector<float>(used)};
    kernels::host::moe_route({.logits = logits.data(),
                              .choice_bias = bias.empty() ? nullptr : bias.data(),
                              .chosen = out.chosen.data(),
                              .weights = out.weights.data(),
                              .columns = 1,
                              .experts = static_cast<std::uint32_t>(logits.size()),
                              .used = used,
                              .weighting = weighting,
                              .scale = scale,
                              .groups = groups},
                             pool);
    return out;
  }
};

}  // namespace orcd::test
