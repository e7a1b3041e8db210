// Reads the formats in which calls stand behind a mark, or are the whole output.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "engine/chat/argument_stream.hpp"
#include "engine/chat/call_body.hpp"
#include "engine/chat/call_gap.hpp"
#include "engine/chat/call_syntax.hpp"
#include "engine/chat/output_reader.hpp"
#include "engine/chat/reasoning/reasoning_reader.hpp"

namespace orcd::engine {

namespace {

class tagged_reader final : public output_reader {
 public:
  tagged_reader(const output_format& format, const parse_options& options, bool alone)
      : format_(format),
        syntax_(syntax_of(options.tools ? format.calls : call_format::none)),
        thought_(format, options.types),
        think_(thought_.marks()),
        answer_(answer_marks(format)),
        types_(options.types),
        lenient_(options.lenient),
        alone_(alone),
        place_(options.in_reasoning && format.think ? place::reasoning : place::content),
        gap_(syntax_, lenient_) {
    if (place_ == place::reasoning) thought_.begin(out);
  }

  void text(std::string_view text) override {
    while (!text.empty() && !over_) {
      // Content and reasoning are passed on in runs, everything else byte by byte.
      if (place_ == place::reasoning) return thought_.text(text, out);
      if (place_ == place::content && !may_be_bare(text.front())) return out.content(text);
      one(text.front());
      text.remove_prefix(1);
    }
  }

  void mark(std::string_view mark) override {
    if (over_) return;
    if (ends_answer(mark)) return stop();
    if (goes_on(mark)) return text(mark);
    switch (place_) {
      case place::reasoning:
        if (thought_.mark(mark, lenient_ && begins_calls(mark), out)) place_ = place::content;
        return;
      case place::half_open:
        if (mark == syntax_.kind) return after_open(mark);
        break;
      case place::opened:
        // Written twice it is still one mark.
        if (mark == syntax_.open && lenient_ && !unmarked_ && raw_.size() < raw_max) return after_open(mark);
        break;
      case place::call:
        if (mark == syntax_.close) return close_call(mark);
        break;
      case place::name:
        if (mark == "[ARGS]" || mark == "[CALL_ID]") return after_name(mark);
        break;
      case place::call_id:
        if (mark == "[ARGS]") return after_name(mark);
        break;
      case place::between:
      case place::spoilt:
        if (mark == syntax_.close) return leave_call();
        break;
      default: break;
    }
    give_up({});
    open(mark);
  }

  void end(output_end how) override {
    if (place_ == place::reasoning && thought_.end(how, out)) return;
    if (place_ == place::call && finish_call(how)) return;
    // What only a call can be, and is none yet, is no content where the output was cut; nor is the beginning
    // of a further one anywhere.
    const bool cut = how == output_end::cut && !may_be_text();
    if (begins_call() && (cut || out.calls() > 0)) {
      raw_.clear();
      out.boundary();
      place_ = place::content;
      return;
    }
    give_up({});
  }

  bool in_reasoning() const noexcept override { return place_ == place::reasoning; }
  bool over() const noexcept override { return over_; }
  bool calls_alone() const noexcept override { return !out.has_content() && !unfinished_ && !over_; }

  bool awaits_mark() const noexcept override {
    if (out.calls() > 0 && begins_call()) return true;
    switch (place_) {
      case place::between:
      case place::spoilt: return true;
      case place::reasoning: return thought_.awaits_mark();
      case place::call: return call_->committed() && !call_->in_string();
      case place::arguments: return arguments_.started() && !arguments_.in_string();
      case place::content: return out.calls() > 0 && out.at_boundary();
      default: return false;
    }
  }

  bool may_take(std::string_view beginning) const override {
    const auto marks = reading_marks(format_);
    return std::any_of(marks.begin(), marks.end(),
                       [&](std::string_view m) { return m.starts_with(beginning) && takes(m); });
  }

 private:
  using body = call_syntax::body;
  /// spoilt: in a call that went wrong.
  enum class place { content, reasoning, half_open, opened, call, between, name, call_id, arguments, spoilt };

  /// Whether this mark is read as one here.
  [[nodiscard]] bool takes(std::string_view mark) const {
    switch (place_) {
      case place::reasoning:
        return thought_.quotes() || mark == think_.close || (lenient_ && begins_calls(mark)) ||
               (mark == think_.open && thought_.is_fresh());
      case place::call: return !call_->in_string();
      case place::arguments: return !arguments_.in_string();
      case place::content: break;
      default: return true;
    }
    if (begins_calls(mark) || ends_answer(mark)) return true;
    if (mark == answer_.close) return answering_;
    if (mark == think_.open || mark == think_.close)
      return mark == think_.open ? may_think() : thinks_anywhere();
    return mark == answer_.open && !answering_ && !out.has_content();
  }
  /// Whether reasoning may begin behind other parts. Not where a grammar promises something of these.
  [[nodiscard]] bool thinks_anywhere() const noexcept { return think_.anywhere && lenient_; }
  [[nodiscard]] bool may_think() const noexcept {
    return thinks_anywhere() || (!out.has_content() && out.calls() == 0);
  }

  /// Whether it is a mark before calls, or the beginning of one that needs none.
  [[nodiscard]] bool begins_calls(std::string_view mark) const noexcept {
    return mark == syntax_.open || mark == syntax_.also || (lenient_ && mark == syntax_.elements.name_open);
  }

  /// Whether the mark begins what only others write.
  [[nodiscard]] bool ends_answer(std::string_view mark) const noexcept {
    const bool behind = place_ == place::between || (place_ == place::content && out.at_boundary());
    return mark == syntax_.result && out.calls() > 0 && behind;
  }
  void stop() {
    raw_.clear();
    place_ = place::content;
    over_ = true;
  }

  /// Whether the mark is text of what has begun.
  [[nodiscard]] bool goes_on(std::string_view mark) const noexcept {
    if (place_ == place::call && call_->takes(mark)) return true;
    if (place_ == place::arguments && arguments_.in_string()) return true;
    if (place_ == place::spoilt) return mark != syntax_.close && !begins_calls(mark);
    const bool inside = place_ == place::opened || place_ == place::call || place_ == place::between;
    return inside && mark == syntax_.elements.name_open;
  }

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
  /// Whether what begins like a call without a mark is rather an answer: its name so far is no function's.
  [[nodiscard]] bool may_be_text() const {
    return unmarked_ && place_ == place::call && types_ && !types_->has_name_from(call_->begun_name());
  }

  /// Whether a call may begin without a mark: where that is so, it is the whole output, or several are.
  [[nodiscard]] bool may_be_bare(char c) const {
    const bool list = syntax_.bare_list && lenient_ && (is_space(c) || c == '[');
    if (out.calls() > 0) return list && out.at_boundary();
    return !out.has_content() && (list || (syntax_.bare && (is_space(c) || begins_body(syntax_, c))));
  }
  void one(char c) {
    switch (place_) {
      case place::reasoning: return thought_.text({&c, 1}, out);
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
      case place::spoilt: return spoil(c);
    }
  }

  void bare(char c) {
    const bool list = !syntax_.bare && c == '[';
    if (!list && !(syntax_.bare && begins_body(syntax_, c))) return out.content({&c, 1});
    unmarked_ = true;
    offered_only_ = list;
    in_list_ = list;
    if (!list) {
      begin_body();
      return in_call(c);
    }
    raw_ = c;
    place_ = place::opened;
  }

  void open(std::string_view mark) {
    if (mark == syntax_.open || mark == syntax_.also) {
      raw_ = mark;
      place_ = syntax_.kind.empty() ? place::opened : place::half_open;
      unmarked_ = offered_only_ = in_list_ = false;
    } else if (begins_calls(mark)) {
      unmarked_ = offered_only_ = true;
      in_list_ = false;
      begin_body();
      text(mark);
    } else if (mark == think_.open && may_think()) {
      thought_.begin(out);
      place_ = place::reasoning;
    } else if (mark == think_.close && thinks_anywhere()) {
      if (!out.has_content()) out.boundary();
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

  /// A second opening mark.
  void after_open(std::string_view mark) {
    raw_ += mark;
    place_ = place::opened;
  }

  void begin_body() {
    call_ = make_call_body(syntax_, types_, lenient_);
    place_ = place::call;
  }

  /// Whether a call of this name may be made.
  [[nodiscard]] bool may_call(const std::string& name) const {
    return !(offered_only_ || alone_) || !types_ || types_->has(name);
  }

  void in_call(char c) {
    std::string fragment;
    const bool was_call = call_->committed();
    const auto v = call_->push(c, fragment);
    if (v == call_body::verdict::wrong && !call_->committed()) return give_up({&c, 1});
    if (!call_->committed()) {
      raw_ += c;
      if (raw_.size() > raw_max) give_up({});
      return;
    }
    if (!was_call && !may_call(call_->name())) {
      call_.reset();
      return give_up({&c, 1});
    }
    if (!was_call) begin_call(call_->name());
    out.arguments(fragment);
    if (v == call_body::verdict::wrong) {
      go_wrong();
      return spoil(c);
    }
    if (v == call_body::verdict::done) call_->closed() ? leave_call() : wait_for_next();
  }

  // The closing mark within a call: what came so far is a call, or it is text, or a call that has begun and
  // stays unfinished.
  void close_call(std::string_view mark) {
    std::string rest;
    const bool was_call = call_->committed();
    if (call_->close(rest) && (was_call || may_call(call_->name()))) {
      if (!was_call) begin_call(call_->name());
      out.arguments(rest);
      return leave_call();
    }
    if (!was_call) call_.reset();
    give_up({});
    was_call ? out.boundary() : out.content(mark);
  }

  /// The output ends within a call: whether that needs nothing more.
  bool finish_call(output_end how) {
    if (!may_call(call_->name())) return false;
    std::string rest;
    const bool was_call = call_->committed();
    const bool whole = how == output_end::whole && call_->finish(rest);
    const bool begun = how == output_end::cut && !was_call && call_->leave(rest);
    if (!whole && !begun) return false;
    if (!was_call) begin_call(call_->name());
    out.arguments(rest);
    unfinished_ = unfinished_ || begun;
    place_ = place::content;
    return true;
  }

  void begin_call(const std::string& name) {
    out.begin_call(name);
    raw_.clear();
  }

  void go_wrong() {
    unfinished_ = true;
    place_ = place::spoilt;
  }
  void spoil(char c) {
    std::string fragment;
    call_ ? call_->spoil(c, fragment) : arguments_.spoil(c, fragment);
    out.arguments(fragment);
  }

  void wait_for_next() {
    gap_.begin(in_list_);
    place_ = place::between;
  }

  void between(char c) {
    const auto v = gap_.push(c);
    if (v == call_gap::verdict::more) return;
    in_list_ = gap_.in_list();
    if (v == call_gap::verdict::end) return leave_call();
    if (v == call_gap::verdict::text) return give_up({&c, 1});
    raw_ = gap_.text();
    begin_body();
    in_call(c);
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
    const bool lists = syntax_.what == body::objects || syntax_.what == body::lead_name ||
                       (syntax_.what == body::python && syntax_.head == "[");
    if (!lists) {
      begin_body();
      return in_call(c);
    }
    if (c == '[' && !in_list_) {
      raw_ += c;
      in_list_ = true;
    } else if (begins_body(syntax_, c) && (in_list_ || lenient_ || syntax_.what != body::lead_name)) {
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
    call_.reset();
    place_ = mark == "[CALL_ID]" ? place::call_id : place::arguments;
  }

  void in_arguments(char c) {
    std::string fragment;
    const bool was_call = arguments_.started();
    const auto v = arguments_.push(c, fragment);
    if (v == argument_stream::verdict::wrong || v == argument_stream::verdict::outside) {
      if (!was_call) return give_up({&c, 1});
      go_wrong();
      return spoil(c);
    }
    if (!arguments_.started()) {
      raw_ += c;
      if (raw_.size() > raw_max) give_up({});
      return;
    }
    if (!was_call && !may_call(name_)) {
      arguments_ = {};
      return give_up({&c, 1});
    }
    if (!was_call) begin_call(name_);
    out.arguments(fragment);
    if (v != argument_stream::verdict::done) return;
    in_list_ = false;
    wait_for_next();
  }

  // There is no (further) call here: one that was begun stays unfinished; otherwise it is content, together
  // with `rest`.
  void give_up(std::string_view rest) {
    const place was = std::exchange(place_, place::content);
    const std::string raw = was == place::between ? gap_.text() : raw_;
    raw_.clear();
    std::string left;
    if (was == place::call && call_ && call_->committed()) {
      (void)call_->leave(left);
    } else if (was == place::arguments && arguments_.started()) {
      arguments_.leave(left);
    } else if (was == place::spoilt) {
      out.boundary();
      return;
    } else if (was == place::reasoning) {
      place_ = was;
      return;
    } else {
      if (was != place::content) out.content(raw + std::string(rest));
      return;
    }
    out.arguments(left);
    unfinished_ = true;
  }

  /// The most bytes that are kept of text that may become a call.
  static constexpr std::size_t raw_max = 2U << 20U;

  const output_format format_;
  const call_syntax& syntax_;
  reasoning_reader thought_;
  reasoning_syntax think_;
  mark_pair answer_;
  std::shared_ptr<const argument_types> types_;
  bool lenient_;
  bool alone_;  ///< no function is called that is not offered
  place place_;
  bool answering_ = false;     ///< between the marks of an answer
  bool unmarked_ = false;      ///< the call has no opening mark
  bool offered_only_ = false;  ///< it is one only if the function is offered
  bool in_list_ = false;
  bool unfinished_ = false;  ///< a call was not ended
  bool over_ = false;
  std::string raw_;  ///< text since the last mark or call, in case it is content
  std::string name_;
  std::unique_ptr<call_body> call_;
  argument_stream arguments_;
  call_gap gap_;
};

}  // namespace

std::unique_ptr<output_reader> make_tagged_reader(const output_format& format, const parse_options& options,
                                                  bool offered_only) {
  return std::make_unique<tagged_reader>(format, options, offered_only);
}

}  // namespace orcd::engine
