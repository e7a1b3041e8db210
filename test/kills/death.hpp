// How an engine of the test of kills kills itself: by SIGKILL, at the place that it was started for.
#pragma once

#include <cstdint>

#include "test/kills/points.hpp"

namespace orcd::kills {

/// The processor traps after each instruction until the process has died, or stop_stepping().
void step_to_death(std::uint32_t instructions);
void stop_stepping();
[[nodiscard]] std::uint32_t instructions_left() noexcept;

class death {
 public:
  /// At the `passes`th time that `where` is passed while an answer is under way, of which `under_way` counts
  /// some; of instructions, those of the library's calls from the `passes`th on count.
  death(point where, std::uint32_t passes, std::uint32_t instructions,
        const std::uint64_t* under_way = nullptr) noexcept
      : where_(where), passes_(passes), instructions_(instructions), under_way_(under_way) {}

  void passed(point here);

  /// Calls the library, and dies in it where that is due.
  template <class Call>
  decltype(auto) within(Call&& call) {
    const stepping here(*this);
    return call();
  }

 private:
  class stepping {
   public:
    explicit stepping(death& owner) : owner_(owner) {
      if (owner.where_ != point::instruction || !owner.hits()) return;
      if (owner.passes_ > 1) {
        --owner.passes_;
        return;
      }
      on_ = true;
      step_to_death(owner.instructions_);
    }
    ~stepping() {
      if (!on_) return;
      stop_stepping();
      owner_.instructions_ = instructions_left();
    }
    stepping(const stepping&) = delete;
    stepping& operator=(const stepping&) = delete;

   private:
    death& owner_;
    bool on_ = false;
  };

  [[nodiscard]] bool hits() const noexcept { return under_way_ != nullptr && *under_way_ > 0; }

  point where_;
  std::uint32_t passes_;
  std::uint32_t instructions_;
  const std::uint64_t* under_way_;
};

}  // namespace orcd::kills
