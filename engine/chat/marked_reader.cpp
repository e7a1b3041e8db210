// A call whose arguments are an object of bare names, in which texts stand between marks and nothing is
// escaped. They are turned into JSON byte by byte; argument_stream checks that it is JSON. What else models
// write is taken: names between marks, JSON's own strings, Python's constants, a comma behind the last value.
#include <string>
#include <string_view>
#include <utility>

#include "engine/chat/argument_stream.hpp"
#include "engine/chat/call_bodies.hpp"
#include "engine/chat/value_text.hpp"

namespace orcd::engine {

namespace {

bool is_word(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '+' ||
         c == '-';
}

/// What begins or ends something else than a bare name.
bool ends_name(char c) noexcept {
  return std::string_view(",{}[]<>\"").find(c) != std::string_view::npos;
}

class marked_reader final : public call_body {
 public:
  explicit marked_reader(const call_syntax& syntax) : lead_(syntax.name), quote_(syntax.quote) {}

  verdict push(char c, std::string& arguments) override {
    switch (place_) {
      case place::name: return in_name(c, arguments);
      case place::member: return begin_member(c, arguments);
      case place::key: return in_key(c, arguments);
      case place::colon: return before_value(c, arguments);
      case place::value: return begin_value(c, arguments);
      case place::text: return in_text(c, arguments);
      case place::string: return in_string(c, arguments);
      case place::word: return in_word(c, arguments);
      case place::behind: return behind_value(c, arguments);
      case place::done: break;
    }
    return verdict::wrong;
  }
  bool close(std::string&) override { return false; }
  bool leave(std::string& arguments) override {
    arguments_.leave(arguments);
    // Half a constant of Python's begins nothing of JSON's. What is held of a text may have begun its end.
    if (place_ == place::word && held_.find_first_of("TFN") != 0) arguments += held_;
    return committed_;
  }
  void spoil(char c, std::string& arguments) override {
    for (const char held : std::exchange(held_, {})) arguments_.spoil(held, arguments);
    arguments_.spoil(c, arguments);
  }
  bool committed() const noexcept override { return committed_; }
  const std::string& name() const noexcept override { return name_; }
  bool in_string() const noexcept override { return place_ == place::text || place_ == place::string; }
  bool takes(std::string_view mark) const noexcept override { return in_string() || mark == quote_; }

 private:
  enum class place { name, member, key, colon, value, text, string, word, behind, done };

  /// Passes on JSON.
  [[nodiscard]] verdict pass(std::string_view json, std::string& arguments) {
    return arguments_.push_all(json, arguments) ? verdict::more : verdict::wrong;
  }
  [[nodiscard]] verdict go(place to) noexcept {
    place_ = to;
    return verdict::more;
  }

  verdict in_name(char c, std::string& arguments) {
    if (is_space(c)) {
      named_ = !name_.empty() && name_ != lead_;
      return verdict::more;
    }
    if (c == '{') {
      if (name_.starts_with(lead_)) name_.erase(0, lead_.size());
      if (name_.empty()) return verdict::wrong;
      committed_ = true;
      return open('{', arguments);
    }
    if (named_ || !is_name(c) || name_.size() >= name_bytes_max) return verdict::wrong;
    name_ += c;
    return verdict::more;
  }

  verdict open(char bracket, std::string& arguments) {
    open_ += bracket;
    fresh_ = true;
    place_ = bracket == '{' ? place::member : place::value;
    return pass({&bracket, 1}, arguments);
  }
  verdict close_with(char c, std::string& arguments) {
    if (open_.back() != (c == '}' ? '{' : '[')) return verdict::wrong;
    open_.pop_back();
    fresh_ = false;
    place_ = open_.empty() ? place::done : place::behind;
    if (pass({&c, 1}, arguments) == verdict::wrong) return verdict::wrong;
    return open_.empty() ? verdict::done : verdict::more;
  }
  /// The comma between two values is passed on with the second: there may be one behind the last.
  [[nodiscard]] std::string separator() { return std::exchange(fresh_, false) ? "" : ", "; }

  verdict begin_member(char c, std::string& arguments) {
    if (is_space(c)) return verdict::more;
    if (c == '}') return close_with(c, arguments);
    key_ = true;
    if (c == quote_.front()) return begin_text(c);
    if (c == '"') return begin_string(arguments);
    place_ = place::key;
    return in_key(c, arguments);
  }
  verdict in_key(char c, std::string& arguments) {
    if (c != ':') {
      if (ends_name(c) || held_.size() >= early_bytes_max) return verdict::wrong;
      held_ += c;
      return verdict::more;
    }
    std::string name = std::exchange(held_, {});
    while (!name.empty() && is_space(name.back())) name.pop_back();
    if (name.empty()) return verdict::wrong;
    std::string json = separator() + '"';
    append_escaped(json, name);
    place_ = place::value;
    return pass(json + "\": ", arguments);
  }
  verdict before_value(char c, std::string& arguments) {
    if (is_space(c)) return verdict::more;
    if (c != ':') return verdict::wrong;
    place_ = place::value;
    return pass(": ", arguments);
  }

  verdict begin_value(char c, std::string& arguments) {
    if (is_space(c)) return verdict::more;
    const bool listed = open_.back() == '[';
    if (listed && c == ']') return close_with(c, arguments);
    key_ = false;
    if (c == quote_.front()) return begin_text(c);
    if (c == '"') return begin_string(arguments);
    if (listed && pass(separator(), arguments) == verdict::wrong) return verdict::wrong;
    if (c == '{' || c == '[') return open(c, arguments);
    if (!is_word(c)) return verdict::wrong;
    held_ = c;
    return go(place::word);
  }
  /// The separator and the quote of a string that is a name or a value.
  [[nodiscard]] verdict quote(std::string& arguments) {
    const bool separated = key_ || open_.back() == '[';
    return pass((separated ? separator() : std::string()) + '"', arguments);
  }
  verdict begin_string(std::string& arguments) {
    place_ = place::string;
    return quote(arguments);
  }
  verdict begin_text(char c) {
    begun_ = false;
    held_ = c;
    return go(place::text);
  }

  /// The mark before it, the text, the mark behind it. What may be a part of a mark is held.
  verdict in_text(char c, std::string& arguments) {
    if (!begun_) {
      if (quote_[held_.size()] != c) return verdict::wrong;
      held_ += c;
      if (held_ != quote_) return verdict::more;
      held_.clear();
      begun_ = true;
      return quote(arguments);
    }
    held_ += c;
    while (!quote_.starts_with(held_)) {
      std::string json;
      append_escaped(json, std::string_view(held_).substr(0, 1));
      held_.erase(0, 1);
      if (pass(json, arguments) == verdict::wrong) return verdict::wrong;
    }
    if (held_ != quote_) return verdict::more;
    held_.clear();
    place_ = key_ ? place::colon : place::behind;
    return pass("\"", arguments);
  }

  verdict in_string(char c, std::string& arguments) {
    if (pass({&c, 1}, arguments) == verdict::wrong) return verdict::wrong;
    if (!arguments_.in_string()) place_ = key_ ? place::colon : place::behind;
    return verdict::more;
  }

  /// A number or a constant: passed on when it ends.
  verdict in_word(char c, std::string& arguments) {
    if (is_word(c)) {
      if (held_.size() >= name_bytes_max) return verdict::wrong;
      held_ += c;
      return verdict::more;
    }
    // A word that is no JSON is not passed on in part: the whole of it is held. A number ends with what
    // follows it.
    if (!is_space(c) && c != ',' && c != '}' && c != ']') return verdict::wrong;
    if (!arguments_.push_word(without_python(held_), arguments)) return verdict::wrong;
    held_.clear();
    place_ = place::behind;
    return behind_value(c, arguments);
  }

  verdict behind_value(char c, std::string& arguments) {
    if (is_space(c)) return verdict::more;
    if (c == ',') return go(open_.back() == '{' ? place::member : place::value);
    return c == '}' || c == ']' ? close_with(c, arguments) : verdict::wrong;
  }

  std::string_view lead_;   ///< before the name
  std::string_view quote_;  ///< the mark around texts
  place place_ = place::name;
  bool committed_ = false;
  bool named_ = false;  ///< the name has ended
  bool fresh_ = false;  ///< nothing has come in the brackets that were opened last
  bool key_ = false;    ///< the text or string is a member's name
  bool begun_ = false;  ///< the mark before the text has come
  std::string open_;    ///< the brackets that are open
  std::string name_, held_;
  argument_stream arguments_;
};

}  // namespace

std::unique_ptr<call_body> make_marked_reader(const call_syntax& syntax) {
  return std::make_unique<marked_reader>(syntax);
}

}  // namespace orcd::engine
