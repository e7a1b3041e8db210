// Splits a text that comes in pieces into plain text and tags: the end of a piece that may be the beginning
// of a tag is held back. Not thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace orcd::engine {

class tag_scanner {
 public:
  /// Tags are not empty, and none is part of another.
  explicit tag_scanner(std::vector<std::string_view> tags) : tags_(std::move(tags)) {}

  /// Calls text(std::string_view) and tag(std::string_view) in order; text is never empty.
  template <class Text, class Tag>
  void push(std::string_view piece, const Text& text, const Tag& tag) {
    held_ += piece;
    std::size_t from = 0;  // where the text that was not passed on begins
    std::size_t at = 0;
    while (at < held_.size()) {
      const std::string_view rest = std::string_view(held_).substr(at);
      const std::string_view found = match(rest);
      if (found.empty()) {
        if (may_begin(rest)) break;
        ++at;
        continue;
      }
      if (at > from) text(std::string_view(held_).substr(from, at - from));
      tag(found);
      from = at += found.size();
    }
    if (at > from) text(std::string_view(held_).substr(from, at - from));
    held_.erase(0, at);
  }
  /// The text has ended: what was held back is plain text.
  template <class Text>
  void finish(const Text& text) {
    if (!held_.empty()) text(std::string_view(held_));
    held_.clear();
  }

 private:
  [[nodiscard]] std::string_view match(std::string_view rest) const noexcept {
    for (const std::string_view tag : tags_) {
      if (rest.starts_with(tag)) return tag;
    }
    return {};
  }
  [[nodiscard]] bool may_begin(std::string_view rest) const noexcept {
    for (const std::string_view tag : tags_) {
      if (tag.starts_with(rest)) return true;
    }
    return false;
  }

  std::vector<std::string_view> tags_;
  std::string held_;
};

}  // namespace orcd::engine
