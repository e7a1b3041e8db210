// Which of the load milestones 0, 25, 50, 75, 100 % a progress report reaches (M0-W-1900).
#pragma once

#include <algorithm>
#include <vector>

namespace orcd::app {

/// Each milestone is given once and in order, also when reports jump or fall back.
class load_progress {
 public:
  [[nodiscard]] std::vector<unsigned> reached(unsigned percent) {
    std::vector<unsigned> out;
    for (; next_ <= std::min(percent, 100U); next_ += 25) out.push_back(next_);
    return out;
  }

 private:
  unsigned next_ = 0;
};

}  // namespace orcd::app
