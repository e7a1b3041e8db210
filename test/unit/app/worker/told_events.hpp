// A log that keeps the names of what it is told, in order. Any thread.
#pragma once

#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/narration.hpp"

namespace orcd::test {

class told_events final : public engine::narrator {
 public:
  void narrate(engine::severity, std::string_view event, std::string_view human,
               std::initializer_list<engine::narration_field>) noexcept override {
    const std::lock_guard held(mutex_);
    events_.emplace_back(event);
    last_ = human;
  }
  [[nodiscard]] std::vector<std::string> all() const {
    const std::lock_guard held(mutex_);
    return events_;
  }
  [[nodiscard]] bool has(std::string_view event) const {
    const auto known = all();
    return std::find(known.begin(), known.end(), event) != known.end();
  }
  /// The sentence of the latest.
  [[nodiscard]] std::string last() const {
    const std::lock_guard held(mutex_);
    return last_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> events_;
  std::string last_;
};

}  // namespace orcd::test
