#include "engine/chat/value_end.hpp"

#include <algorithm>
#include <utility>

#include "engine/chat/call_body.hpp"

namespace orcd::engine {

namespace {

using kind = value_end::match::kind;

/// Between an end and what follows it. Models write a line end.
constexpr std::size_t space_bytes_max = 32;

std::size_t leading_space(std::string_view text) noexcept {
  return static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_space) - text.begin());
}

/// Whether the text begins with the mark, or ends within it.
kind begins(std::string_view text, std::string_view mark) noexcept {
  if (mark.empty()) return kind::none;
  if (text.size() < mark.size()) return mark.starts_with(text) ? kind::begun : kind::none;
  return text.starts_with(mark) ? kind::end : kind::none;
}

/// The more certain of two.
value_end::match better(const value_end::match& a, const value_end::match& b) noexcept {
  return b.what > a.what ? b : a;
}

}  // namespace

kind value_end::followed(std::string_view rest, std::initializer_list<std::string_view> marks,
                         const context& about) const {
  const std::size_t space = leading_space(rest);
  if (space == rest.size()) return about.last || space > space_bytes_max ? kind::end : kind::begun;
  kind out = kind::none;
  for (const std::string_view mark : marks) out = std::max(out, begins(rest.substr(space), mark));
  return out == kind::begun && about.last ? kind::end : out;
}

value_end::match value_end::closed(std::string_view text, std::size_t line, const context& about) const {
  const kind end = begins(text.substr(line), marks_.value_close);
  if (end != kind::end) return {end, 0};
  const std::size_t bytes = line + marks_.value_close.size();
  const std::string_view rest = text.substr(bytes);
  // A value on lines of its own ends within one only if the line ends there, too.
  if (about.own_line && line == 0 && !rest.empty() && rest.front() != '\n') return {};
  const std::string_view key_close = marks_.key_close.size() > 1 ? marks_.key_close : std::string_view();
  return {followed(rest, {marks_.key_open, marks_.call_close, syntax_.close, marks_.value_close, key_close},
                   about),
          bytes};
}

value_end::match value_end::unclosed(std::string_view text, std::size_t line, const context& about) const {
  match out;
  const std::string_view after = text.substr(line);
  for (const auto& [close, next] :
       {std::pair{marks_.call_close, syntax_.close}, std::pair{syntax_.close, syntax_.open}}) {
    const kind end = begins(after, close);
    match one{end, 0};
    if (end == kind::end) one = {followed(after.substr(close.size()), {next}, about), line};
    out = better(out, one);
  }
  return out;
}

value_end::match value_end::next_key(std::string_view text, std::size_t line, const context& about) const {
  constexpr std::size_t key_bytes_max = 64;
  const std::string_view after = text.substr(line);
  const kind open = begins(after, marks_.key_open);
  if (open != kind::end) return {open, 0};
  const std::string_view key = after.substr(marks_.key_open.size());
  const auto name = static_cast<std::size_t>(std::find_if_not(key.begin(), key.end(), is_name) - key.begin());
  if (name > key_bytes_max) return {};
  const kind close = begins(key.substr(name), marks_.key_close);
  if (close == kind::end && !about.may_follow(key.substr(0, name))) return {};
  return {close, line};
}

value_end::match value_end::judge(std::string_view text, const context& about) const {
  const std::size_t line = text.starts_with('\n') ? 1 : 0;
  // The line end before a mark is part of the value where values have no lines of their own.
  match out;
  if (line == 0 || marks_.value_lines) out = closed(text, line, about);
  // A mark that stands in for a forgotten one begins a line.
  if (about.may_follow && !about.held_end && (line == 1 || !marks_.value_lines)) {
    out = better(out, unclosed(text, line, about));
    out = better(out, next_key(text, line, about));
  }
  if (about.last && out.what == kind::begun) out.what = kind::none;
  return out;
}

}  // namespace orcd::engine
