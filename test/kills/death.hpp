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
  /// At the `passes`th time that `where` is passed; of instructions, those of the library's calls from the
  /// `passes`th on count.
  death(point where, std::uint32_t passes, std::uint32_t instructions) noexcept
      : where_(where), passes_(passes), instructions_(instructions) {}

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
      if (owner.where_ != point::instruction) return;
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

  point where_;
  std::uint32_t passes_;
  std::uint32_t instructions_;
};

}  // namespace orcd::kills
