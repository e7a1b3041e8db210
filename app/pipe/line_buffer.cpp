#include "app/pipe/line_buffer.hpp"

#include <algorithm>

#include "app/pipe/numbers.hpp"

namespace orcd::app {

void line_buffer::add(std::string_view bytes) {
  bytes_.erase(0, at_);
  searched_ -= at_;
  at_ = 0;
  bytes_.append(bytes);
}

engine::result<std::optional<std::string_view>> line_buffer::next(std::string_view field, std::size_t most) {
  const auto end = bytes_.find('\n', searched_);
  const std::size_t length = (end == bytes_.npos ? bytes_.size() : end) - at_;
  if (length > most) {
    return pipe_error("the line of " + std::string(field) + " has more than " + std::to_string(most) +
                      " bytes, the limit");
  }
  if (end == bytes_.npos && (!closed_ || length == 0)) {
    searched_ = bytes_.size();
    return std::optional<std::string_view>();
  }
  const std::string_view line(bytes_.data() + at_, length);
  at_ = std::min(bytes_.size(), at_ + length + 1);
  searched_ = at_;
  return std::optional(line);
}

}  // namespace orcd::app
