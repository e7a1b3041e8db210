#include "engine/model/problems.hpp"

#include <utility>

namespace orcd::engine {

void problem_list::add(std::string text) {
  ++count_;
  if (texts_.size() < most) texts_.push_back(std::move(text));
}

error problem_list::to_error(std::string_view file) const {
  std::string message(file);
  message += ": ";
  if (count_ > 1) message += std::to_string(count_) + " problems with " + what_ + ": ";
  for (std::size_t i = 0; i < texts_.size(); ++i) message.append(i == 0 ? "" : "; ").append(texts_[i]);
  if (count_ > texts_.size()) message += "; and " + std::to_string(count_ - texts_.size()) + " more";
  return {errc::model_load_failed, std::move(message), param_};
}

}  // namespace orcd::engine
