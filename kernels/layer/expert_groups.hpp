// Groups of experts: a token's experts are chosen from some of them alone. What the host's router and the
// device's are told. Source: DeepSeek-V2 2405.04434, section 2.2.2, ranks groups by their best expert;
// DeepSeek-V3 2412.19437, section 2.1.2, by the sum of several.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// What orders groups: what a group's two best are chosen by, biases included, summed, or that of its best.
enum class group_ranking : std::uint8_t { two_best, best };

struct expert_groups {
  std::uint32_t count = 1;  ///< of neighbours, each of as many experts, two at least; 1: chosen from all
  std::uint32_t used = 1;   ///< the first so many by rank, ties to the lowest; they have a token's experts
  group_ranking ranking = group_ranking::two_best;
};

/// Whether `used` of so many experts can be chosen from these groups.
[[nodiscard]] constexpr bool groups_take(const expert_groups& groups, std::uint32_t experts,
                                         std::uint32_t used) noexcept {
  if (groups.count == 0 || groups.used == 0 || groups.used > groups.count || experts % groups.count != 0)
    return false;
  const std::uint32_t size = experts / groups.count;
  return (groups.count == 1 || size >= 2) && groups.used * size >= used;
}

}  // namespace orcd::kernels
