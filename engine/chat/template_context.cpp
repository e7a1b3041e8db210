#include "engine/chat/template_context.hpp"

#include <algorithm>

namespace orcd::engine::jinja {

void context::look() {
  constexpr std::uint64_t steps_between_looks = 4'096;
  if (steps_ > limits.steps) {
    fail("the chat template takes more steps than the limit of " + std::to_string(limits.steps));
  }
  if (clock::now() > deadline_) {
    fail("the chat template takes longer than the limit of " + std::to_string(limits.time.count()) + " ms");
  }
  next_look_ = std::min(steps_ + steps_between_looks, limits.steps + 1);
}

void context::fail_depth() const {
  fail("the chat template nests deeper than the limit of " + std::to_string(limits.depth));
}

}  // namespace orcd::engine::jinja
