// Calls in elements: a name, keys, and values that are text. A value that is a text by the function's schema
// is passed on as it comes; others are kept until they end, since only then it is known what they are.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/chat/call_bodies.hpp"
#include "engine/chat/json_scanner.hpp"
#include "engine/chat/value_end.hpp"
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
  element_reader(const call_syntax& syntax, std::shared_ptr<const argument_types> types, bool lenient)
      : close_(syntax.close), syntax_(syntax.elements), types_(std::move(types)), end_(syntax) {
    if (syntax_.name_open.empty()) place_ = place::name;
    if (lenient) about_.may_follow = [this](std::string_view key) { return may_follow(key); };
  }
  element_reader(const element_reader&) = delete;
  element_reader& operator=(const element_reader&) = delete;

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

  /// Marks behind the last value may be missing, but not the value.
  bool finish(std::string& arguments) override {
    if (place_ == place::value && ends_with_output()) end_value(arguments);
    if (place_ != place::member || !has_members_) return false;
    if (syntax_.call_close.starts_with(held_) || close_.starts_with(held_)) held_.clear();
    return close(arguments);
  }

  bool leave(std::string& arguments) override {
    if (!committed_ && !has_members_ && place_ != place::value) return false;
    commit(arguments);
    // What is held may have begun an end, or have been part of a text.
    if (place_ == place::value && !type_.is_text()) {
      arguments += begin_member() + value_of_cut_text(value_, type_);
    }
    return true;
  }

  /// What it passes on is not what the model writes, and would be no part of it.
  void spoil(char, std::string&) override {}

  bool committed() const noexcept override { return committed_; }
  const std::string& name() const noexcept override { return name_; }
  bool in_string() const noexcept override { return place_ == place::value; }
  bool closed() const noexcept override { return closed_; }
  bool takes(std::string_view mark) const noexcept override {
    return in_string() || mark == syntax_.key_open || mark == syntax_.key_close ||
           mark == syntax_.value_open || mark == syntax_.value_close ||
           (place_ == place::value_open && mark == close_);
  }

 private:
  enum class place { before, name, member, key, value_open, value, done };

  /// Takes a byte of one of these marks, white space before them left out: `more` while one is begun, `done`
  /// where held_ is a whole one. After `wrong` held_ is what came before the byte.
  verdict follow(char c, std::initializer_list<std::string_view> marks) {
    if (held_.empty() && is_space(c)) return verdict::more;
    const std::string come = held_ + c;
    const bool begun = std::any_of(marks.begin(), marks.end(),
                                   [&](std::string_view mark) { return mark.starts_with(come); });
    if (!begun) return verdict::wrong;
    held_ = come;
    return std::find(marks.begin(), marks.end(), held_) == marks.end() ? verdict::more : verdict::done;
  }

  verdict before(char c) {
    const verdict v = follow(c, {syntax_.name_open});
    if (v != verdict::done) return v;
    held_.clear();
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
    // Ends that stand there once too often say nothing.
    const std::string_view stray = syntax_.key_close.size() > 1 ? syntax_.key_close : syntax_.value_close;
    const verdict v = follow(c, {syntax_.key_open, syntax_.call_close, close_, syntax_.value_close, stray});
    if (v != verdict::done) return v;
    const std::string mark = std::exchange(held_, {});
    if (mark == syntax_.key_open) {
      place_ = place::key;
      key_.clear();
    } else if (mark == syntax_.call_close || mark == close_) {
      closed_ = mark == close_;
      return close(arguments) ? verdict::done : verdict::wrong;
    } else if (!has_members_) {
      return verdict::wrong;
    }
    return verdict::more;
  }

  verdict in_key(char c, std::string& arguments) {
    if (key_.size() >= key_bytes_max + syntax_.key_close.size()) return verdict::wrong;
    key_ += c;
    if (key_.ends_with(syntax_.key_close)) {
      key_.resize(key_.size() - syntax_.key_close.size());
      if (key_.empty()) return verdict::wrong;
      place_ = place::value_open;
      return syntax_.value_open.empty() ? begin_value(arguments) : verdict::more;
    }
    // The end of the key is missing.
    if (syntax_.value_open.empty() || !key_.ends_with(syntax_.value_open)) return verdict::more;
    key_.resize(key_.size() - syntax_.value_open.size());
    while (!key_.empty() && is_space(key_.back())) key_.pop_back();
    return key_.empty() ? verdict::wrong : begin_value(arguments);
  }

  verdict before_value(char c, std::string& arguments) {
    const verdict v = follow(c, {syntax_.value_open, syntax_.value_close, syntax_.key_open, close_});
    if (v == verdict::more) return v;
    const std::string come = std::exchange(held_, {});
    if (v == verdict::done) return come == syntax_.value_open ? begin_value(arguments) : verdict::wrong;
    // The mark before the value is missing.
    verdict out = begin_value(arguments);
    for (const char one : come + c) {
      if (out == verdict::more) out = in_value(one, arguments);
    }
    return out;
  }

  verdict begin_value(std::string& arguments) {
    type_ = types_ ? types_->of(name_, key_) : argument_type{};
    place_ = place::value;
    about_.own_line = about_.held_end = lined_ = false;
    first_ = syntax_.value_lines;
    blank_ = !type_.is_text();
    json_ = false;
    scanner_ = {};
    value_.clear();
    if (type_.is_text()) {
      commit(arguments);
      arguments += begin_member() + '"';
      has_members_ = true;
    }
    return verdict::more;
  }

  verdict in_value(char c, std::string& arguments) {
    if (value_.size() + held_.size() >= early_bytes_max) return verdict::wrong;
    if (std::exchange(first_, false) && c == '\n') {
      lined_ = true;
      return verdict::more;
    }
    held_ += c;
    while (!held_.empty()) {
      if (!may_end() || (held_.front() != '\n' && held_.front() != '<')) {
        take_first(arguments);
        continue;
      }
      const value_end::match match = end_.judge(held_, about_);
      if (match.what == value_end::match::kind::begun) break;
      if (match.what == value_end::match::kind::end) return end_with(match.bytes, arguments);
      take_first(arguments);
    }
    return verdict::more;
  }

  /// A JSON value that is read as such may hold in its strings what ends values.
  [[nodiscard]] bool may_end() const noexcept { return !json_ || !scanner_.in_string(); }

  /// Of two values with one name a client sees one: a name that was there is no further key.
  [[nodiscard]] bool may_follow(std::string_view key) const {
    return types_ && types_->names(name_, key) && key != key_;
  }

  /// Whether what is held ends the value if no more text comes.
  [[nodiscard]] bool ends_with_output() const {
    if (!may_end()) return false;
    value_end::context about = about_;
    about.last = true;
    return end_.judge(held_, about).what == value_end::match::kind::end;
  }

  verdict end_with(std::size_t bytes, std::string& arguments) {
    const std::string rest = held_.substr(bytes);
    end_value(arguments);
    verdict out = verdict::more;
    for (const char c : rest) {
      if (out == verdict::more) out = push(c, arguments);
    }
    return out;
  }

  /// The first byte that is held is part of the value.
  void take_first(std::string& arguments) {
    const char c = held_.front();
    if (c == '<' && held_.starts_with(syntax_.value_close)) about_.held_end = true;
    held_.erase(0, 1);
    about_.own_line = lined_;
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
    write(begin_member() + value_of_text(value_, type_), arguments);
    value_.clear();
    has_members_ = true;
  }

  /// A call that may still turn out to be none is kept until a text of it must be passed on.
  void write(const std::string& text, std::string& arguments) { (committed_ ? arguments : early_) += text; }
  void commit(std::string& arguments) {
    if (!std::exchange(committed_, true)) arguments += std::exchange(early_, {});
  }
  [[nodiscard]] std::string begin_member() const {
    std::string out = has_members_ ? ", \"" : "\"";
    append_escaped(out, key_);
    return out += "\": ";
  }

  std::string_view close_;  ///< the mark that ends the call
  const element_syntax& syntax_;
  std::shared_ptr<const argument_types> types_;
  value_end end_;
  value_end::context about_;
  place place_ = place::before;
  bool committed_ = false;
  bool closed_ = false;
  bool has_members_ = false;
  std::string name_, key_;
  std::string early_ = "{";  ///< arguments from before the call was committed
  std::string held_;         ///< the beginning of what may be a part of the syntax
  argument_type type_;
  std::string value_;                  ///< what came of a value that is no text
  bool first_ = false;                 ///< a line end here is not part of the value
  bool lined_ = false;                 ///< there was one
  bool blank_ = false, json_ = false;  ///< nothing but white space so far; it may be JSON
  json_scanner scanner_;
};

}  // namespace

std::unique_ptr<call_body> make_element_reader(const call_syntax& syntax,
                                               std::shared_ptr<const argument_types> types, bool lenient) {
  return std::make_unique<element_reader>(syntax, std::move(types), lenient);
}

}  // namespace orcd::engine
