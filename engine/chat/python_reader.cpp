// A call as Python writes it. Its arguments are turned into JSON byte by byte; argument_stream checks that it
// is JSON.
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "engine/chat/argument_stream.hpp"
#include "engine/chat/call_bodies.hpp"
#include "engine/chat/value_text.hpp"

namespace orcd::engine {

namespace {

bool is_letter(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}
bool is_octal(char c) noexcept {
  return c >= '0' && c <= '7';
}
bool is_hexadecimal(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/// A code point as JSON escapes it; empty for what is none.
std::string escape_of(std::uint32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return {};
  char text[16];
  if (code < 0x10000) {
    std::snprintf(text, sizeof text, "\\u%04x", code);
  } else {
    const std::uint32_t rest = code - 0x10000;
    std::snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xD800 + (rest >> 10U), 0xDC00 + (rest & 0x3FFU));
  }
  return text;
}

class python_reader final : public call_body {
 public:
  verdict push(char c, std::string& arguments) override {
    switch (place_) {
      case place::name: return in_name(c);
      case place::key: return in_key(c, arguments);
      case place::equals: return before_value(c, arguments);
      case place::value: return in_value(c, arguments);
      case place::string: return in_text(c, arguments);
      case place::escape: return in_escape(c, arguments);
      case place::code: return in_code(c, arguments);
      case place::word: return in_word(c, arguments);
      case place::done: break;
    }
    return verdict::wrong;
  }
  bool close(std::string&) override { return false; }
  bool committed() const noexcept override { return committed_; }
  const std::string& name() const noexcept override { return name_; }
  bool leave(std::string& arguments) override {
    arguments_.leave(arguments);
    // Half a constant of Python's begins nothing of JSON's.
    const bool constant = word_.find_first_of("TFN") == 0;
    if (place_ == place::word && !constant) arguments += word_;
    return committed_;
  }
  void spoil(char c, std::string& arguments) override {
    for (const char held : std::exchange(word_, {})) arguments_.spoil(held, arguments);
    arguments_.spoil(c, arguments);
  }
  bool in_string() const noexcept override {
    return place_ == place::string || place_ == place::escape || place_ == place::code;
  }

 private:
  enum class place { name, key, equals, value, string, escape, code, word, done };

  /// Passes on JSON.
  [[nodiscard]] verdict pass(std::string_view json, std::string& arguments) {
    return arguments_.push_all(json, arguments) ? verdict::more : verdict::wrong;
  }

  verdict in_name(char c) {
    if (name_.empty() && is_space(c)) return verdict::more;
    if (c == '(' && !name_.empty()) {
      place_ = place::key;
      return verdict::more;
    }
    if (!is_name(c) || name_.size() >= name_bytes_max) return verdict::wrong;
    name_ += c;
    return verdict::more;
  }

  verdict in_key(char c, std::string& arguments) {
    if (is_letter(c) || (is_digit(c) && !word_.empty())) {
      if (word_.size() >= name_bytes_max) return verdict::wrong;
      word_ += c;
      return verdict::more;
    }
    if (word_.empty() && c == ')') return end_call(arguments);
    if (word_.empty() || (c != '=' && !is_space(c)))
      return word_.empty() && is_space(c) ? verdict::more : verdict::wrong;
    place_ = place::equals;
    return before_value(c, arguments);
  }

  verdict before_value(char c, std::string& arguments) {
    if (is_space(c)) return verdict::more;
    if (c != '=') return verdict::wrong;
    const std::string begin = std::string(committed_ ? ", \"" : "{\"") + std::exchange(word_, {}) + "\": ";
    committed_ = true;
    place_ = place::value;
    return pass(begin, arguments);
  }

  verdict end_call(std::string& arguments) {
    const std::string_view end = committed_ ? "}" : "{}";
    committed_ = true;
    if (pass(end, arguments) == verdict::wrong) return verdict::wrong;
    place_ = place::done;
    return verdict::done;
  }

  /// A value, or what stands between the values of a list or an object.
  verdict in_value(char c, std::string& arguments) {
    if (is_space(c)) return verdict::more;
    if (c == ',') {
      if (comma_) return verdict::wrong;
      if (open_.empty()) {
        place_ = place::key;
      } else {
        comma_ = true;  // passed on with the next value: Python may end with one
      }
      return verdict::more;
    }
    if (c == ')' && open_.empty()) return end_call(arguments);
    if (c == ')' || c == ']' || c == '}') {
      if (open_.empty() || open_.back() != c) return verdict::wrong;
      comma_ = false;
      open_.pop_back();
      return pass(c == ')' ? std::string_view("]") : std::string_view(&c, 1), arguments);
    }
    if (std::exchange(comma_, false) && pass(", ", arguments) == verdict::wrong) return verdict::wrong;
    if (c == '\'' || c == '"') {
      quote_ = c;
      place_ = place::string;
      return pass("\"", arguments);
    }
    if (is_letter(c) || is_digit(c) || c == '-') {
      word_ = c;
      place_ = place::word;
      return verdict::more;
    }
    if (c == '[' || c == '{' || c == '(') open_ += c == '[' ? ']' : c == '{' ? '}' : ')';
    if (c == '(') return pass("[", arguments);
    return pass(c == ':' ? std::string_view(": ") : std::string_view(&c, 1), arguments);
  }

  /// A number or a constant: passed on when it ends.
  verdict in_word(char c, std::string& arguments) {
    if (is_letter(c) || is_digit(c) || c == '.' || c == '+' || c == '-') {
      if (word_.size() >= name_bytes_max) return verdict::wrong;
      word_ += c;
      return verdict::more;
    }
    place_ = place::value;
    // A word that is no JSON is not passed on in part: the whole of it is held.
    if (!arguments_.push_word(without_python(word_), arguments)) return verdict::wrong;
    word_.clear();
    return in_value(c, arguments);
  }

  verdict in_text(char c, std::string& arguments) {
    if (c == '\\') {
      place_ = place::escape;
      return verdict::more;
    }
    if (c == quote_) {
      place_ = place::value;
      return pass("\"", arguments);
    }
    return c == '"' ? pass("\\\"", arguments) : pass({&c, 1}, arguments);
  }

  verdict in_escape(char c, std::string& arguments) {
    if (is_octal(c) || c == 'U') {
      word_ = {'\\', c};
      place_ = place::code;
      return verdict::more;
    }
    place_ = place::string;
    switch (c) {
      case '\n': return verdict::more;  // goes on in the next line
      case '\'': return pass("'", arguments);
      case 'x': return pass("\\u00", arguments);
      case 'a': return pass("\\u0007", arguments);
      case 'v': return pass("\\u000b", arguments);
      default: break;
    }
    const bool shared = std::string_view("\"\\bfnrtu").find(c) != std::string_view::npos ||
                        (c == '/' && quote_ == '"');  // JSON's; none of Python's
    // Python keeps the backslash before what is no escape.
    return pass((shared ? "\\" : "\\\\") + std::string(1, c), arguments);
  }

  /// The digits of \ooo, of which there may be fewer, and of \UXXXXXXXX.
  verdict in_code(char c, std::string& arguments) {
    const bool octal = word_[1] != 'U';
    const bool digit = octal ? is_octal(c) : is_hexadecimal(c);
    if (!digit && !octal) return verdict::wrong;
    const std::string come = digit ? word_ + c : word_;
    if (digit && come.size() < (octal ? 4U : 10U)) {
      word_ = come;
      return verdict::more;
    }
    std::uint32_t code = 0;
    std::from_chars(come.data() + (octal ? 1 : 2), come.data() + come.size(), code, octal ? 8 : 16);
    const std::string json = escape_of(code);
    if (json.empty() || pass(json, arguments) == verdict::wrong) return verdict::wrong;
    word_.clear();
    place_ = place::string;
    return digit ? verdict::more : in_text(c, arguments);
  }

  place place_ = place::name;
  bool committed_ = false;
  bool comma_ = false;
  char quote_ = 0;
  std::string open_;  ///< what closes the brackets that are open
  std::string name_, word_;
  argument_stream arguments_;
};

}  // namespace

std::unique_ptr<call_body> make_python_reader() {
  return std::make_unique<python_reader>();
}

}  // namespace orcd::engine
