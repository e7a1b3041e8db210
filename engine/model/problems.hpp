// Collects the problems of a model, so that one message can name all of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::engine {

class problem_list {
 public:
  /// At most this many are kept; the message gives the number of the others.
  static constexpr std::size_t most = 24;

  /// Of a file that is read as `what`, which `param` names in errors.
  explicit problem_list(std::string_view what = "the model", std::string_view param = "model")
      : what_(what), param_(param) {}

  void add(std::string text);
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// "FILE: N problems with the model: A; B; ... and 3 more", as model_load_failed.
  [[nodiscard]] error to_error(std::string_view file) const;

 private:
  std::string what_, param_;
  std::vector<std::string> texts_;
  std::size_t count_ = 0;
};

}  // namespace orcd::engine
