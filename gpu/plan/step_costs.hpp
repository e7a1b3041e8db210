// What steps of more tokens cost, from measurements of some numbers of tokens. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace orcd::gpu {

class step_costs {
 public:
  /// The time of a step of so many tokens, in any unit; numbers come in ascending order, from one on.
  void add(std::uint32_t tokens, double time);
  /// As engine::accelerator::step_cost: between two measurements on the line between them, beyond the last
  /// one as along the last two. A measurement that is below an earlier one counts as that. Without any, every
  /// token costs as much as the first.
  [[nodiscard]] double of(std::uint32_t tokens) const noexcept;

 private:
  struct point {
    std::uint32_t tokens;
    double cost;
  };
  std::vector<point> points_;
  double unit_ = 1.0;
};

}  // namespace orcd::gpu
