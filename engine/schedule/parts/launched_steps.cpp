#include "engine/schedule/parts/launched_steps.hpp"

#include "engine/base/ensure.hpp"

namespace orcd::engine {

std::uint64_t launched_steps::only_key() const noexcept {
  std::uint64_t key = 0;
  for (const auto& step : steps_) {
    for (const auto& part : step) {
      if (key != 0 && part.key != key) return 0;
      key = part.key;
    }
  }
  return key;
}

launched_step launched_steps::take_oldest() {
  ORCD_ENSURE(!steps_.empty());
  launched_step step = std::move(steps_.front());
  steps_.erase(steps_.begin());
  return step;
}

}  // namespace orcd::engine
