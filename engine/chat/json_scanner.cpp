#include "engine/chat/json_scanner.hpp"

namespace orcd::engine {

namespace {

bool is_space(char c) noexcept {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
int hex_value(char c) noexcept {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

json_scanner::verdict json_scanner::push(char c) {
  switch (state_) {
    case state::value: return begin_value(c);
    case state::string: return in_text(c);
    case state::number: return in_number(c);
    case state::word:
      if (word_.front() != c) return verdict::wrong;
      word_.remove_prefix(1);
      return word_.empty() ? end_value() : verdict::more;
    case state::after_value: return after(c);
    case state::first_member:
    case state::after_comma: return member(c);
    case state::colon:
      if (is_space(c)) return verdict::more;
      if (c != ':') return verdict::wrong;
      state_ = state::value;
      return verdict::more;
    case state::done: break;
  }
  return verdict::wrong;
}

json_scanner::verdict json_scanner::begin_value(char c) {
  if (is_space(c)) return verdict::more;
  if (c == '{' || c == '[') {
    if (open_.size() >= depth_max) return verdict::wrong;
    open_.push_back(c);
    state_ = state::first_member;
    return verdict::more;
  }
  if (c == '"') {
    state_ = state::string;
    key_ = false;
    return verdict::more;
  }
  if (c == '-' || is_digit(c)) {
    state_ = state::number;
    number_ = c == '-' ? digits::sign : c == '0' ? digits::zero : digits::whole;
    return verdict::more;
  }
  word_ = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : "";
  if (word_.empty()) return verdict::wrong;
  state_ = state::word;
  return verdict::more;
}

json_scanner::verdict json_scanner::in_text(char c) {
  if (escape_ >= 2) return in_hex(c);
  if (escape_ == 1) {
    if (pair_ != 0 && c != 'u') return verdict::wrong;
    if (c == 'u') {
      escape_ = 2;
      code_ = 0;
      return verdict::more;
    }
    if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) return verdict::wrong;
    escape_ = 0;
    return verdict::more;
  }
  if (pair_ != 0 && c != '\\') return verdict::wrong;
  if (c == '\\') {
    escape_ = 1;
    return verdict::more;
  }
  if (static_cast<unsigned char>(c) < 0x20) return verdict::wrong;
  if (c != '"') return verdict::more;
  if (!key_) return end_value();
  state_ = state::colon;
  return verdict::more;
}

json_scanner::verdict json_scanner::in_hex(char c) {
  const int value = hex_value(c);
  if (value < 0) return verdict::wrong;
  code_ = static_cast<std::uint16_t>(code_ << 4U | static_cast<unsigned>(value));
  if (++escape_ < 6) return verdict::more;
  escape_ = 0;
  const bool high = code_ >= 0xD800 && code_ < 0xDC00;
  const bool low = code_ >= 0xDC00 && code_ < 0xE000;
  if (low != (pair_ != 0)) return verdict::wrong;
  pair_ = high ? 1 : 0;
  return verdict::more;
}

json_scanner::verdict json_scanner::in_number(char c) {
  const auto to = [&](digits next) {
    number_ = next;
    return verdict::more;
  };
  switch (number_) {
    case digits::sign: return !is_digit(c) ? verdict::wrong : to(c == '0' ? digits::zero : digits::whole);
    case digits::whole:
      if (is_digit(c)) return verdict::more;
      [[fallthrough]];
    case digits::zero:
      if (is_digit(c)) return verdict::wrong;
      if (c == '.') return to(digits::point);
      if (c == 'e' || c == 'E') return to(digits::e);
      break;
    case digits::point: return is_digit(c) ? to(digits::fraction) : verdict::wrong;
    case digits::fraction:
      if (is_digit(c)) return verdict::more;
      if (c == 'e' || c == 'E') return to(digits::e);
      break;
    case digits::e:
      if (c == '+' || c == '-') return to(digits::e_sign);
      [[fallthrough]];
    case digits::e_sign: return is_digit(c) ? to(digits::exponent) : verdict::wrong;
    case digits::exponent:
      if (is_digit(c)) return verdict::more;
      break;
  }
  if (open_.empty()) {
    state_ = state::done;
    return verdict::outside;
  }
  state_ = state::after_value;
  return after(c);
}

json_scanner::verdict json_scanner::after(char c) {
  if (is_space(c)) return verdict::more;
  if (c == ',') {
    state_ = state::after_comma;
    return verdict::more;
  }
  if (c != (open_.back() == '{' ? '}' : ']')) return verdict::wrong;
  open_.pop_back();
  return end_value();
}

json_scanner::verdict json_scanner::member(char c) {
  if (is_space(c)) return verdict::more;
  const bool first = state_ == state::first_member;
  if (first && c == (open_.back() == '{' ? '}' : ']')) {
    open_.pop_back();
    return end_value();
  }
  if (open_.back() == '[') return begin_value(c);
  if (c != '"') return verdict::wrong;
  state_ = state::string;
  key_ = true;
  return verdict::more;
}

json_scanner::verdict json_scanner::end_value() {
  state_ = open_.empty() ? state::done : state::after_value;
  return open_.empty() ? verdict::done : verdict::more;
}

}  // namespace orcd::engine
