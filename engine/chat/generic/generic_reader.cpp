// Reads the generic form: the whole output is one JSON object with calls or a response. A grammar keeps
// models to it; what is not of the form is content all the same, never an error.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/chat/call_body.hpp"
#include "engine/chat/call_syntax.hpp"
#include "engine/chat/generic/string_decoder.hpp"
#include "engine/chat/json_scanner.hpp"
#include "engine/chat/output_reader.hpp"
#include "engine/chat/reasoning/reasoning_text.hpp"

namespace orcd::engine {

namespace {

class generic_reader final : public output_reader {
 public:
  generic_reader(const output_format& format, const parse_options& options)
      : syntax_(syntax_of(call_format::generic)),
        think_(reasoning_marks(format)),
        thought_(think_),
        types_(options.types),
        json_answer_(options.json_answer) {
    if (options.in_answer) {
      place_ = place::answer;
      said_ = true;
    } else if (options.in_reasoning && format.think) {
      begin_reasoning();
    }
  }

  void text(std::string_view text) override {
    while (!text.empty()) {
      if (place_ == place::reasoning) return thought_.text(text, out);
      if (place_ == place::content) return out.content(text);
      one(text.front());
      text.remove_prefix(1);
    }
  }

  void mark(std::string_view mark) override {
    if (place_ == place::reasoning && mark == think_.open && thought_.is_fresh()) return;
    if (place_ == place::reasoning) thought_.end(false, out);
    if (place_ == place::reasoning && mark == think_.close) {
      out.boundary();
      place_ = place::before;
    } else if (may_think() && mark == think_.open) {
      raw_.clear();
      begin_reasoning();
    } else {
      text(mark);
    }
  }

  void end(output_end how) override {
    if (place_ == place::reasoning) thought_.end(how == output_end::cut, out);
    if (place_ == place::call && finish_call(how)) return;
    if (place_ == place::call && call_->committed()) return leave_call();
    if (place_ == place::answer && how == output_end::whole) out.content(decoder_.finish());
    // What has begun and is nothing yet is no content where the output was cut, nor behind what was said.
    if (how == output_end::cut || said_) raw_.clear();
    out.content(std::exchange(raw_, {}));
  }

  bool in_reasoning() const noexcept override { return place_ == place::reasoning; }
  bool in_text() const noexcept override {
    switch (place_) {
      case place::answer: return true;
      case place::value: return scanner_.in_string();
      case place::call:
      case place::spoilt: return call_->in_string();
      default: return false;
    }
  }
  bool awaits_mark() const noexcept override { return false; }
  bool may_take(std::string_view beginning) const override {
    if (place_ == place::reasoning) return think_.close.starts_with(beginning);
    return may_think() && think_.open.starts_with(beginning);
  }

 private:
  /// before: of the whole; value: of a response that is no text, or is to stay as it is written; answer: the
  /// text of a response; spoilt: in a call that went wrong.
  enum class place {
    reasoning,
    before,
    first_key,
    next_key,
    key,
    colon,
    value_begins,
    value,
    answer,
    list,
    next_call,
    call,
    behind_call,
    behind_value,
    behind,
    spoilt,
    content
  };
  enum class member { call, calls, response };

  [[nodiscard]] bool may_think() const noexcept {
    return place_ == place::before && !think_.open.empty() && !out.has_content();
  }

  void begin_reasoning() {
    out.boundary();
    thought_.begin();
    place_ = place::reasoning;
  }

  void one(char c) {
    switch (place_) {
      case place::answer: return in_answer(c);
      case place::value: return in_value(c);
      case place::call: return in_call(c);
      case place::spoilt: return spoil(c);
      case place::key: return in_key(c);
      default: break;
    }
    if (is_space(c) && raw_.size() < raw_max) {
      if (place_ != place::behind) raw_ += c;
      return;
    }
    structure(c);
  }

  /// A byte between names and values that is no white space.
  void structure(char c) {
    switch (place_) {
      case place::before:
        if (c == '{') return go(place::first_key, c);
        break;
      case place::first_key:
      case place::next_key:
        if (c == '"') return go(place::key, c);
        break;
      case place::colon:
        if (c == ':') return go(place::value_begins, c);
        break;
      case place::value_begins: return begin_value(c);
      case place::list:
        if (c == ']') return go(place::behind_value, c);
        [[fallthrough]];
      case place::next_call:
        if (c == '{') return begin_call(c);
        break;
      case place::behind_call:
        if (c == ',') return go(place::next_call, c);
        if (c == ']') return go(place::behind_value, c);
        break;
      case place::behind_value:
        if (c == ',') return go(place::next_key, c);
        if (c == '}') return leave();
        break;
      default: break;
    }
    give_up(c);
  }

  void go(place to, char c) {
    raw_ += c;
    place_ = to;
  }

  /// The object has ended.
  void leave() {
    // One that says nothing at all is no output of the form.
    if (!said_) out.content(raw_ + '}');
    raw_.clear();
    place_ = said_ ? place::behind : place::content;
  }

  /// It is not of the form: what was kept is content, and so is what follows.
  void give_up(char c) {
    place_ = place::content;
    raw_ += c;
    out.content(std::exchange(raw_, {}));
  }

  void in_key(char c) {
    constexpr std::size_t key_bytes_max = 16;
    if (c != '"') {
      key_ += c;
      return key_.size() > key_bytes_max ? give_up(c) : go(place::key, c);
    }
    const std::string key = std::exchange(key_, {});
    if (key == "tool_calls") {
      member_ = member::calls;
    } else if (key == "tool_call") {
      member_ = member::call;
    } else if (key == "response" && !said_) {
      member_ = member::response;
    } else {
      return give_up(c);
    }
    go(place::colon, c);
  }

  void begin_value(char c) {
    if (member_ == member::calls) return c == '[' ? go(place::list, c) : give_up(c);
    if (member_ == member::call) return c == '{' ? begin_call(c) : give_up(c);
    said_ = true;
    raw_.clear();
    if (c == '"' && !json_answer_) {
      place_ = place::answer;
      return;
    }
    scanner_ = {};
    place_ = place::value;
    in_value(c);
  }

  void in_answer(char c) {
    out.content(decoder_.push(c));
    if (!decoder_.ended()) return;
    out.finish();  // white space in the quotes is the answer's
    place_ = place::behind_value;
  }

  void in_value(char c) {
    const auto v = scanner_.push(c);
    if (v == json_scanner::verdict::wrong) return give_up(c);
    if (v == json_scanner::verdict::outside) {
      place_ = place::behind_value;
      return one(c);
    }
    out.content({&c, 1});
    if (v == json_scanner::verdict::done) place_ = place::behind_value;
  }

  void begin_call(char c) {
    call_ = make_call_body(syntax_, types_, false);
    place_ = place::call;
    in_call(c);
  }

  void in_call(char c) {
    std::string fragment;
    const bool was_call = call_->committed();
    const auto v = call_->push(c, fragment);
    if (!call_->committed()) {
      if (v == call_body::verdict::wrong || raw_.size() > raw_max) return give_up(c);
      raw_ += c;
      return;
    }
    if (!was_call && types_ && !types_->has(call_->name())) return give_up(c);
    if (!was_call) commit();
    out.arguments(fragment);
    if (v == call_body::verdict::wrong) {
      place_ = place::spoilt;
      return spoil(c);
    }
    if (v == call_body::verdict::done)
      place_ = member_ == member::calls ? place::behind_call : place::behind_value;
  }

  void commit() {
    said_ = true;
    raw_.clear();
    out.begin_call(call_->name());
  }

  void spoil(char c) {
    std::string fragment;
    call_->spoil(c, fragment);
    out.arguments(fragment);
  }

  /// The output ends within a call: whether what came is one, whole or begun.
  bool finish_call(output_end how) {
    if (types_ && !types_->has(call_->name())) return false;
    std::string rest;
    const bool was_call = call_->committed();
    const bool whole = how == output_end::whole && call_->finish(rest);
    const bool begun = how == output_end::cut && !was_call && call_->leave(rest);
    if (!whole && !begun) return false;
    if (!was_call) commit();
    out.arguments(rest);
    return true;
  }
  void leave_call() {
    std::string rest;
    (void)call_->leave(rest);
    out.arguments(rest);
  }

  /// The most bytes that are kept of what may become a call.
  static constexpr std::size_t raw_max = 2U << 20U;

  const call_syntax& syntax_;
  reasoning_syntax think_;
  reasoning_text thought_;
  std::shared_ptr<const argument_types> types_;
  bool json_answer_;
  place place_ = place::before;
  member member_ = member::response;
  bool said_ = false;  ///< there was a response, or a call
  std::string raw_;    ///< text that was not passed on, in case it is content
  std::string key_;
  json_scanner scanner_;
  string_decoder decoder_;
  std::unique_ptr<call_body> call_;
};

}  // namespace

std::unique_ptr<output_reader> make_generic_reader(const output_format& format,
                                                   const parse_options& options) {
  return std::make_unique<generic_reader>(format, options);
}

}  // namespace orcd::engine
