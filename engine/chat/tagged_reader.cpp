// Reads the formats in which calls stand behind a mark, or are the whole output.
#include <memory>
#include <string>
#include <utility>

#include "engine/chat/argument_stream.hpp"
#include "engine/chat/call_body.hpp"
#include "engine/chat/call_syntax.hpp"
#include "engine/chat/output_reader.hpp"

namespace orcd::engine {

namespace {

constexpr std::string_view white_space = " \n\t\r";

class tagged_reader final : public output_reader {
 public:
  tagged_reader(const output_format& format, const parse_options& options)
      : syntax_(syntax_of(options.tools ? format.calls : call_format::none)),
        think_(reasoning_marks(format)),
        answer_(answer_marks(format)),
        types_(options.types),
        place_(options.in_reasoning && format.think ? place::reasoning : place::content) {
    if (place_ == place::reasoning) out.boundary();
  }

  void text(std::string_view text) override {
    while (!text.empty()) {
      // Content and reasoning are passed on in runs, everything else byte by byte.
      if (place_ == place::reasoning || (place_ == place::content && !may_be_bare(text.front()))) {
        place_ == place::reasoning ? out.reasoning(text) : out.content(text);
        return;
      }
      one(text.front());
      text.remove_prefix(1);
    }
  }

  void mark(std::string_view mark) override {
    switch (place_) {
      case place::half_open:
        if (mark == syntax_.kind) return after_open(mark);
        break;
      case place::reasoning:
        if (mark != think_.close) return out.reasoning(mark);
        out.boundary();
        place_ = place::content;
        return;
      case place::call:
        if (call_->takes(mark)) return text(mark);
        if (mark == syntax_.close) return close_call(mark);
        break;
      case place::arguments:
        if (arguments_.in_string()) return text(mark);
        break;
      case place::name:
        if (mark == "[ARGS]" || mark == "[CALL_ID]") return after_name(mark);
        break;
      case place::call_id:
        if (mark == "[ARGS]") return after_name(mark);
        break;
      case place::between:
        if (mark == syntax_.close) return leave_call();
        break;
      default: break;
    }
    give_up({});
    open(mark);
  }

  void end() override {
    // Behind a call, the beginning of what only another one can be is no content: the output was cut there.
    if (out.calls() > 0 && begins_call()) {
      raw_.clear();
      place_ = place::content;
      return;
    }
    give_up({});
  }
  bool in_reasoning() const noexcept override { return place_ == place::reasoning; }
  bool awaits_mark() const noexcept override {
    if (out.calls() > 0 && begins_call()) return true;
    switch (place_) {
      case place::between: return true;
      case place::call: return call_->committed() && !call_->in_string();
      case place::arguments: return arguments_.started() && !arguments_.in_string();
      case place::content: return out.calls() > 0 && out.at_boundary();
      default: return false;
    }
  }

 private:
  using body = call_syntax::body;
  enum class place { content, reasoning, half_open, opened, call, between, name, call_id, arguments };

  /// Whether the text since the last mark or call may become a call and is none yet.
  [[nodiscard]] bool begins_call() const noexcept {
    switch (place_) {
      case place::call: return !call_->committed();
      case place::arguments: return !arguments_.started();
      case place::between:
      case place::half_open:
      case place::opened:
      case place::name:
      case place::call_id: return true;
      default: return false;
    }
  }

  /// Whether a call may begin without a mark: where that is so, it is the whole output, or several are.
  [[nodiscard]] bool may_be_bare(char c) const {
    if (!syntax_.bare || out.has_content() || out.calls() > 0) return false;
    return is_space(c) || begins_body(c);
  }
  [[nodiscard]] bool begins_body(char c) const noexcept {
    switch (syntax_.what) {
      case body::elements: return c == '<';
      case body::named:
      case body::python: return is_name(c);
      default: return c == '{';
    }
  }

  void one(char c) {
    switch (place_) {
      case place::reasoning: out.reasoning({&c, 1}); return;
      case place::content: return bare(c);
      case place::half_open: return give_up({&c, 1});
      case place::opened: return opened(c);
      case place::call: return in_call(c);
      case place::between: return between(c);
      case place::name: return in_name(c);
      case place::call_id:
        raw_ += c;
        if (raw_.size() > raw_max) give_up({});
        return;
      case place::arguments: return in_arguments(c);
    }
  }

  void bare(char c) {
    if (!begins_body(c)) return out.content({&c, 1});
    begin_body();
    in_call(c);
  }

  void open(std::string_view mark) {
    if (mark == syntax_.open) {
      raw_ = mark;
      place_ = syntax_.kind.empty() ? place::opened : place::half_open;
      in_list_ = false;
    } else if (mark == think_.open && !out.has_content() && out.calls() == 0) {
      out.boundary();
      place_ = place::reasoning;
    } else if (mark == answer_.open && !answering_ && !out.has_content()) {
      answering_ = true;
      out.boundary();
    } else if (mark == answer_.close && answering_) {
      answering_ = false;
      out.boundary();
    } else {
      out.content(mark);
    }
  }

  /// The second of two opening marks.
  void after_open(std::string_view mark) {
    raw_ += mark;
    place_ = place::opened;
  }

  void begin_body() {
    call_ = make_call_body(syntax_, types_);
    place_ = place::call;
  }

  void in_call(char c) {
    std::string fragment;
    const bool was_call = call_->committed();
    const auto v = call_->push(c, fragment);
    if (v == call_body::verdict::wrong) {
      if (was_call) out.arguments(fragment);
      return give_up({&c, 1});
    }
    if (!was_call && !call_->committed()) {
      raw_ += c;
      if (raw_.size() > raw_max) give_up({});
      return;
    }
    if (!was_call) begin_call(call_->name());
    out.arguments(fragment);
    if (v == call_body::verdict::done) place_ = place::between;
  }

  // The closing mark within a call: what came so far is a call, also one that ended early, or text.
  void close_call(std::string_view mark) {
    std::string rest;
    const bool was_call = call_->committed();
    if (call_->close(rest)) {
      if (!was_call) begin_call(call_->name());
      out.arguments(rest);
      return leave_call();
    }
    give_up({});
    was_call ? out.boundary() : out.content(mark);
  }

  void begin_call(const std::string& name) {
    out.begin_call(name);
    raw_.clear();
  }

  // After a complete call: its closing mark, another call, or content.
  void between(char c) {
    if (is_space(c)) {
      raw_ += c;
      return;
    }
    const std::string_view seen = trimmed();
    if (in_list_ && c == ']' && seen.empty()) {
      in_list_ = false;
      raw_.clear();
      if (syntax_.close.empty() && syntax_.trailer.empty()) leave_call();
    } else if (seen.empty() && ((in_list_ && c == ',') || (separates_bare() && c == ';'))) {
      raw_ += c;
    } else if (!in_list_ && !syntax_.trailer.empty() && syntax_.trailer.starts_with(std::string(seen) + c)) {
      raw_ += c;
      if (trimmed() == syntax_.trailer) leave_call();
    } else if (next_begins(c, seen)) {
      begin_body();
      in_call(c);
    } else {
      give_up({&c, 1});
    }
  }
  [[nodiscard]] std::string_view trimmed() const {
    const std::size_t first = raw_.find_first_not_of(white_space);
    if (first == std::string::npos) return {};
    return std::string_view(raw_).substr(first, raw_.find_last_not_of(white_space) - first + 1);
  }
  [[nodiscard]] bool separates_bare() const noexcept { return syntax_.bare && syntax_.what == body::objects; }
  /// Whether another call begins without a mark.
  [[nodiscard]] bool next_begins(char c, std::string_view seen) const noexcept {
    if (!begins_body(c)) return false;
    if (in_list_) return seen == ",";
    switch (syntax_.what) {
      case body::elements: return !syntax_.elements.call_close.empty() && seen.empty();
      case body::python: return seen.empty();
      default: return separates_bare();
    }
  }

  void leave_call() {
    raw_.clear();
    out.boundary();
    place_ = place::content;
  }

  // After an opening mark: a list of calls, a call, or (mistral) the name of one.
  void opened(char c) {
    if (is_space(c)) {
      raw_ += c;
      if (raw_.size() > raw_max) give_up({});
      return;
    }
    const bool lists = syntax_.what == body::objects || syntax_.what == body::lead_name;
    if (!lists) {
      begin_body();
      return in_call(c);
    }
    if (c == '[' && !in_list_) {
      raw_ += c;
      in_list_ = true;
    } else if (c == '{' && (in_list_ || syntax_.what == body::objects)) {
      begin_body();
      in_call(c);
    } else if (!in_list_ && syntax_.what == body::lead_name && is_name(c)) {
      raw_ += c;
      name_ = c;
      place_ = place::name;
    } else {
      give_up({&c, 1});
    }
  }

  void in_name(char c) {
    if (c == '{') {
      after_name({});
      return in_arguments(c);
    }
    raw_ += c;
    if (is_space(c) && raw_.size() <= raw_max) return;
    if (!is_name(c) || name_.size() >= call_body::name_bytes_max) return give_up({});
    name_ += c;
  }

  void after_name(std::string_view mark) {
    raw_ += mark;
    arguments_ = {};
    place_ = mark == "[CALL_ID]" ? place::call_id : place::arguments;
  }

  void in_arguments(char c) {
    std::string fragment;
    const bool was_call = arguments_.started();
    const auto v = arguments_.push(c, fragment);
    if (v == argument_stream::verdict::wrong || v == argument_stream::verdict::outside)
      return give_up({&c, 1});
    if (!arguments_.started()) {
      raw_ += c;
      if (raw_.size() > raw_max) give_up({});
      return;
    }
    if (!was_call) begin_call(name_);
    out.arguments(fragment);
    if (v != argument_stream::verdict::done) return;
    in_list_ = false;
    place_ = place::between;
  }

  // There is no (further) call here: one that was begun is completed; otherwise it is content, together with
  // `rest`.
  void give_up(std::string_view rest) {
    const place was = std::exchange(place_, place::content);
    const std::string raw = std::exchange(raw_, {});
    std::string missing;
    if (was == place::call && call_->committed()) {
      call_->complete(missing);
      out.arguments(missing);
      if (!rest.empty()) out.content(call_->held() + std::string(rest));
      return;
    }
    if (was == place::arguments && arguments_.started()) {
      arguments_.complete(missing);
      out.arguments(missing);
      if (!rest.empty()) out.content(arguments_.held() + std::string(rest));
      return;
    }
    if (was == place::reasoning) {
      place_ = was;
      return;
    }
    if (was != place::content) out.content(raw + std::string(rest));
  }

  /// The most bytes that are kept of text that may become a call.
  static constexpr std::size_t raw_max = 2U << 20U;

  const call_syntax& syntax_;
  mark_pair think_, answer_;
  std::shared_ptr<const argument_types> types_;
  place place_;
  bool answering_ = false;  ///< between the marks of an answer
  bool in_list_ = false;
  std::string raw_;  ///< text since the last mark or call, in case it is content
  std::string name_;
  std::unique_ptr<call_body> call_;
  argument_stream arguments_;
};

}  // namespace

std::unique_ptr<output_reader> make_tagged_reader(const output_format& format, const parse_options& options) {
  return std::make_unique<tagged_reader>(format, options);
}

}  // namespace orcd::engine
