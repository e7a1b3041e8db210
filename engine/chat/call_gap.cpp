#include "engine/chat/call_gap.hpp"

#include "engine/chat/call_body.hpp"

namespace orcd::engine {

bool begins_body(const call_syntax& syntax, char c) noexcept {
  switch (syntax.what) {
    case call_syntax::body::elements: return c == '<';
    case call_syntax::body::named:
    case call_syntax::body::python: return is_name(c);
    default: return c == '{';
  }
}

void call_gap::begin(bool in_list) {
  in_list_ = in_list;
  strays_ = 0;
  text_.clear();
  seen_.clear();
}

call_gap::verdict call_gap::push(char c) {
  if (is_space(c)) {
    text_ += c;
    return verdict::more;
  }
  if (in_list_ && c == ']' && seen_.empty()) {
    in_list_ = false;
    text_.clear();
    return syntax_.close.empty() && syntax_.trailer.empty() ? verdict::end : verdict::more;
  }
  if (is_stray(c)) {
    ++strays_;
    return verdict::more;
  }
  if (next_begins(c)) return verdict::next;
  const bool trails = !in_list_ && syntax_.trailer.starts_with(seen_ + c);
  if (!trails && !separates(c)) return verdict::text;
  text_ += c;
  seen_ += c;
  return trails && seen_ == syntax_.trailer ? verdict::end : verdict::more;
}

/// A bracket that the model has closed once too often, which is no text.
bool call_gap::is_stray(char c) const noexcept {
  constexpr int strays_max = 4;
  return strays_ < strays_max && seen_.empty() && (c == '}' || c == ')' || (c == ']' && !in_list_));
}

bool call_gap::separates(char c) const noexcept {
  return seen_.empty() && ((in_list_ && c == ',') || (separates_bare() && c == ';'));
}

/// Whether another call begins without a mark.
bool call_gap::next_begins(char c) const noexcept {
  if (!begins_body(syntax_, c)) return false;
  if (in_list_) return seen_ == "," || (lenient_ && seen_.empty());
  switch (syntax_.what) {
    case call_syntax::body::elements: return !syntax_.elements.call_close.empty() && seen_.empty();
    case call_syntax::body::python: return seen_.empty();
    case call_syntax::body::objects:
      return separates_bare() || (lenient_ && !syntax_.close.empty() && seen_.empty());
    default: return false;
  }
}

}  // namespace orcd::engine
