#include "engine/chat/argument_stream.hpp"

#include <cstdio>
#include <string_view>
#include <utility>

namespace orcd::engine {

namespace {

bool is_control(char c) noexcept {
  return static_cast<unsigned char>(c) < 0x20;
}

std::string escaped(char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: break;
  }
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

argument_stream::verdict argument_stream::push(char c, std::string& out) {
  if (!started_) {
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') return verdict::more;
    if (c != '{') return verdict::wrong;
    started_ = true;
  }
  if (scanner_.in_string() && scanner_.settled() && is_control(c)) {
    out += escaped(c);
    return verdict::more;
  }
  const bool escape = scanner_.escapes() && held_ == "\\";
  const verdict v = scanner_.push(c);
  if (v == verdict::wrong && escape) return unescaped(c, out);
  if (v == verdict::wrong || v == verdict::outside) return v;
  held_ += c;
  if (!scanner_.settled()) return v;
  out += held_;
  held_.clear();
  settled_ = scanner_;
  return v;
}

argument_stream::verdict argument_stream::unescaped(char c, std::string& out) {
  if (is_control(c)) return verdict::wrong;
  held_ = c == '\'' ? "'" : std::string("\\\\") + c;
  scanner_ = settled_;
  for (const char one : held_) (void)scanner_.push(one);
  out += held_;
  held_.clear();
  settled_ = scanner_;
  return verdict::more;
}

void argument_stream::spoil(char c, std::string& out) {
  if (!spoilt_) {
    // The byte that was wrong ends it, and what was held came before it.
    out += std::exchange(held_, {});
    const json_scanner before = scanner_;
    const verdict v = scanner_.push(c);
    if (v == verdict::done) {
      scanner_ = before;
      return;
    }
    spoilt_ = v != verdict::more;
  }
  out += c;
}

bool argument_stream::push_all(std::string_view json, std::string& out) {
  for (const char c : json) {
    const auto v = push(c, out);
    if (v == verdict::wrong || v == verdict::outside) return false;
  }
  return true;
}

bool argument_stream::push_word(std::string_view json, std::string& out) {
  argument_stream tried = *this;
  std::string passed;
  for (const char c : json) {
    if (tried.push(c, passed) != verdict::more) return false;
  }
  *this = std::move(tried);
  out += passed;
  return true;
}

}  // namespace orcd::engine
