// What the routers of both backends are told about a model's groups of experts.
#pragma once

#include "engine/model/model_spec.hpp"
#include "kernels/layer/expert_groups.hpp"

namespace orcd::gpu {

[[nodiscard]] constexpr kernels::expert_groups expert_groups_of(const engine::model_spec& spec) noexcept {
  return {.count = spec.expert_groups,
          .used = spec.expert_groups_used,
          .ranking = spec.expert_group_ranking == engine::group_ranking::best
                         ? kernels::group_ranking::best
                         : kernels::group_ranking::two_best};
}

}  // namespace orcd::gpu
