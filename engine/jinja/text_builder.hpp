// A text that is being put together, with the parts that came from the caller. What is added as a view is
// looked up; literals and single characters of the code are the template's own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/jinja/template_context.hpp"

namespace orcd::engine::jinja {

class text_builder {
 public:
  explicit text_builder(context& c) noexcept : context_(&c) {}

  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] std::size_t size() const noexcept { return text_.size(); }
  [[nodiscard]] const std::vector<text_range>& callers() const noexcept { return callers_; }

  text_builder& operator+=(char own) {
    text_ += own;
    return *this;
  }
  template <std::size_t Size>
  text_builder& operator+=(const char (&own)[Size]) {
    return add_own({static_cast<const char*>(own), Size - 1});
  }
  text_builder& operator+=(std::string_view view) { return append(view); }
  text_builder& append(std::string_view view) {
    context_->origins.visit(view, [&](text_range part) { mark(text_.size() + part.from, part.size); });
    text_ += view;
    return *this;
  }
  text_builder& add_own(std::string_view own) {
    text_ += own;
    return *this;
  }
  text_builder& append(const text_builder& other) {
    for (const text_range& part : other.callers_) mark(text_.size() + part.from, part.size);
    text_ += other.text_;
    return *this;
  }
  void reserve(std::size_t bytes) { text_.reserve(bytes); }

  /// Cuts the text to its first bytes.
  void resize(std::size_t bytes) {
    text_.resize(bytes);
    while (!callers_.empty() && callers_.back().from >= bytes) callers_.pop_back();
    if (callers_.empty()) return;
    text_range& last = callers_.back();
    last.size = std::min(last.size, bytes - last.from);
  }

  /// What was added behind the first bytes, as a value.
  [[nodiscard]] value kept(std::size_t from = 0) const {
    const value made = context_->own_text(std::string_view(text_).substr(from));
    auto at = std::upper_bound(
        callers_.begin(), callers_.end(), from,
        [](std::size_t place, const text_range& part) { return place < part.from + part.size; });
    for (; at != callers_.end(); ++at) {
      const std::size_t begin = std::max(at->from, from);
      context_->mark(made.view().substr(begin - from, at->from + at->size - begin));
    }
    return made;
  }

  [[nodiscard]] std::string take(std::vector<text_range>& callers) {
    callers = std::move(callers_);
    return std::move(text_);
  }

 private:
  void mark(std::size_t from, std::size_t size) {
    if (!callers_.empty() && callers_.back().from + callers_.back().size == from) {
      callers_.back().size += size;
    } else {
      callers_.push_back({from, size});
    }
  }

  context* context_;
  std::string text_;
  std::vector<text_range> callers_;  ///< in order, none touching the next
};

}  // namespace orcd::engine::jinja
