#include "engine/chat/reasoning/reasoning_text.hpp"

#include <utility>

#include "engine/chat/call_body.hpp"

namespace orcd::engine {

void reasoning_text::begin() {
  awaits_label_ = !label_.empty();
  held_.clear();
}

void reasoning_text::text(std::string_view text, delta_writer& out) {
  while (awaits_label_ && !text.empty()) {
    const char c = text.front();
    if (held_.empty() && is_space(c)) {
      text.remove_prefix(1);
      continue;
    }
    if (held_ == label_) {
      // A longer word is none.
      if (!is_space(c)) out.reasoning(held_);
      awaits_label_ = false;
    } else if (label_[held_.size()] == c) {
      held_ += c;
      text.remove_prefix(1);
    } else {
      out.reasoning(held_);
      awaits_label_ = false;
    }
  }
  if (!text.empty()) out.reasoning(text);
}

void reasoning_text::end(bool cut, delta_writer& out) {
  const std::string held = std::exchange(held_, {});
  if (std::exchange(awaits_label_, false) && held != label_ && !cut) out.reasoning(held);
}

}  // namespace orcd::engine
