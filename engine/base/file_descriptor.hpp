// A descriptor with one owner, who closes it. Nothing here shuts a socket down.
#pragma once

#include <unistd.h>

#include <utility>

namespace orcd::engine {

class file_descriptor {
 public:
  file_descriptor() noexcept = default;
  explicit file_descriptor(int owned) noexcept : held_(owned) {}
  file_descriptor(file_descriptor&& other) noexcept : held_(std::exchange(other.held_, -1)) {}
  file_descriptor& operator=(file_descriptor&& other) noexcept {
    if (this != &other) reset(std::exchange(other.held_, -1));
    return *this;
  }
  ~file_descriptor() { reset(); }

  /// -1 where there is none.
  [[nodiscard]] int get() const noexcept { return held_; }
  [[nodiscard]] explicit operator bool() const noexcept { return held_ >= 0; }
  /// Gives the ownership away.
  [[nodiscard]] int release() noexcept { return std::exchange(held_, -1); }
  void reset(int owned = -1) noexcept {
    if (held_ >= 0) ::close(held_);
    held_ = owned;
  }

 private:
  int held_ = -1;
};

}  // namespace orcd::engine
