// Calls in elements: a name, keys, and values that are text. A value that is a text by the function's schema
// is passed on as it comes; others are kept until they end, since only then it is known what they are.
#include <string>
#include <utility>

#include "engine/chat/call_bodies.hpp"
#include "engine/chat/json_scanner.hpp"
#include "engine/chat/value_text.hpp"

namespace orcd::engine {

namespace {

/// 128 characters, which grammars may write.
constexpr std::size_t key_bytes_max = 512;

/// The type of a JSON value that begins like this and may hold in its strings what ends values; or none.
value_kinds nesting_kind(char first) noexcept {
  if (first == '[') return array_kind;
  if (first == '{') return object_kind;
  return first == '"' ? text_kind : value_kinds{0};
}

class element_reader final : public call_body {
 public:
  element_reader(const call_syntax& syntax, std::shared_ptr<const argument_types> types)
      : syntax_(syntax.elements),
        types_(std::move(types)),
        line_close_("\n" + std::string(syntax_.value_close)) {
    if (syntax_.name_open.empty()) place_ = place::name;
  }

  verdict push(char c, std::string& arguments) override {
    switch (place_) {
      case place::before: return before(c);
      case place::name: return in_name(c, arguments);
      case place::member: return between(c, arguments);
      case place::key: return in_key(c, arguments);
      case place::value_open: return before_value(c, arguments);
      case place::value: return in_value(c, arguments);
      case place::done: break;
    }
    return verdict::wrong;
  }

  bool close(std::string& arguments) override {
    const bool named = place_ == place::name && !name_.empty() && syntax_.name_close.empty();
    if (!named && (place_ != place::member || !held_.empty())) return false;
    commit(arguments);
    arguments += '}';
    place_ = place::done;
    return true;
  }
  bool committed() const noexcept override { return committed_; }
  const std::string& name() const noexcept override { return name_; }
  void complete(std::string& arguments) const override {
    if (place_ == place::value) {
      if (type_.is_text()) {
        arguments += '"';
      } else {
        arguments += begin_member() + value_of_cut_text(value_, type_);
      }
    }
    if (place_ != place::done) arguments += '}';
  }
  std::string held() const override {
    std::string out;
    if (place_ == place::key || place_ == place::value_open) out = std::string(syntax_.key_open) + key_;
    if (place_ == place::value_open) out += syntax_.key_close;
    return out + held_;
  }
  bool in_string() const noexcept override { return place_ == place::value; }
  bool takes(std::string_view mark) const noexcept override {
    return in_string() || mark == syntax_.key_open || mark == syntax_.key_close ||
           mark == syntax_.value_open || mark == syntax_.value_close;
  }

 private:
  enum class place { before, name, member, key, value_open, value, done };

  /// Follows a text that must come, white space before it left out; whether it is complete.
  verdict follow(char c, std::string_view text) {
    if (held_.empty() && is_space(c)) return verdict::more;
    if (!text.starts_with(held_ + c)) return verdict::wrong;
    held_ += c;
    if (held_ != text) return verdict::more;
    held_.clear();
    return verdict::done;
  }

  verdict before(char c) {
    const verdict v = follow(c, syntax_.name_open);
    if (v != verdict::done) return v;
    place_ = place::name;
    return verdict::more;
  }

  verdict in_name(char c, std::string& arguments) {
    if (name_.empty() && is_space(c)) return verdict::more;
    if (is_name(c) && name_.size() < name_bytes_max) {
      name_ += c;
      return verdict::more;
    }
    if (name_.empty()) return verdict::wrong;
    place_ = place::member;
    if (syntax_.name_close.empty()) return between(c, arguments);
    return c == syntax_.name_close.front() ? verdict::more : verdict::wrong;
  }

  verdict between(char c, std::string& arguments) {
    if (held_.empty() && is_space(c)) return verdict::more;
    const std::string come = held_ + c;
    const bool key = syntax_.key_open.starts_with(come), end = syntax_.call_close.starts_with(come);
    if (!key && !end) return verdict::wrong;
    held_ = come;
    if (key && held_ == syntax_.key_open) {
      commit(arguments);
      place_ = place::key;
      key_.clear();
      held_.clear();
    } else if (end && held_ == syntax_.call_close) {
      held_.clear();
      (void)close(arguments);
      return verdict::done;
    }
    return verdict::more;
  }

  verdict in_key(char c, std::string& arguments) {
    if (key_.size() >= key_bytes_max + syntax_.key_close.size()) return verdict::wrong;
    const std::string come = key_ + c;
    if (!come.ends_with(syntax_.key_close)) {
      key_ = come;
      return verdict::more;
    }
    if (come == syntax_.key_close) return verdict::wrong;
    key_ = come.substr(0, come.size() - syntax_.key_close.size());
    place_ = place::value_open;
    return syntax_.value_open.empty() ? begin_value(arguments) : verdict::more;
  }

  verdict before_value(char c, std::string& arguments) {
    const verdict v = follow(c, syntax_.value_open);
    return v == verdict::done ? begin_value(arguments) : v;
  }

  verdict begin_value(std::string& arguments) {
    type_ = types_ ? types_->of(name_, key_) : argument_type{};
    place_ = place::value;
    first_ = syntax_.value_lines;
    blank_ = !type_.is_text();
    json_ = false;
    scanner_ = {};
    value_.clear();
    if (type_.is_text()) {
      arguments += begin_member() + '"';
      has_members_ = true;
    }
    return verdict::more;
  }

  verdict in_value(char c, std::string& arguments) {
    if (value_.size() + held_.size() >= early_bytes_max) return verdict::wrong;
    if (std::exchange(first_, false) && c == '\n') return verdict::more;
    held_ += c;
    while (!held_.empty()) {
      if (!may_end()) {
        take_first(arguments);
        continue;
      }
      if (held_ == syntax_.value_close || (syntax_.value_lines && held_ == line_close_)) {
        end_value(arguments);
        return verdict::more;
      }
      if (syntax_.value_close.starts_with(held_)) break;
      if (syntax_.value_lines && std::string_view(line_close_).starts_with(held_)) break;
      take_first(arguments);
    }
    return verdict::more;
  }

  /// A JSON value that is read as such may hold in its strings what ends values.
  [[nodiscard]] bool may_end() const noexcept { return !json_ || !scanner_.in_string(); }

  /// The first byte that is held is part of the value.
  void take_first(std::string& arguments) {
    const char c = held_.front();
    held_.erase(0, 1);
    if (type_.is_text()) return append_escaped(arguments, {&c, 1});
    value_ += c;
    if (blank_ && is_space(c)) return;
    // A bracket or a quote may begin any text, unless the schema says that it is none.
    if (std::exchange(blank_, false)) json_ = !type_.open && (type_.kinds & nesting_kind(c)) != 0;
    if (json_) json_ = scanner_.push(c) == json_scanner::verdict::more;
  }

  void end_value(std::string& arguments) {
    held_.clear();
    place_ = place::member;
    if (type_.is_text()) {
      arguments += '"';
      return;
    }
    arguments += begin_member() + value_of_text(value_, type_);
    value_.clear();
    has_members_ = true;
  }

  void commit(std::string& arguments) {
    if (!std::exchange(committed_, true)) arguments += '{';
  }
  [[nodiscard]] std::string begin_member() const {
    std::string out = has_members_ ? ", \"" : "\"";
    append_escaped(out, key_);
    return out += "\": ";
  }

  const element_syntax& syntax_;
  std::shared_ptr<const argument_types> types_;
  std::string line_close_;
  place place_ = place::before;
  bool committed_ = false;
  bool has_members_ = false;
  std::string name_, key_;
  std::string held_;  ///< the beginning of what may be a part of the syntax
  argument_type type_;
  std::string value_;                  ///< what came of a value that is no text
  bool first_ = false;                 ///< a line end here is not part of the value
  bool blank_ = false, json_ = false;  ///< nothing but white space so far; it may be JSON
  json_scanner scanner_;
};

}  // namespace

std::unique_ptr<call_body> make_element_reader(const call_syntax& syntax,
                                               std::shared_ptr<const argument_types> types) {
  return std::make_unique<element_reader>(syntax, std::move(types));
}

}  // namespace orcd::engine
