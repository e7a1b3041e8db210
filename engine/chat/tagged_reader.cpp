// Reads the formats in which calls are JSON objects behind a tag, or the whole output (llama3).
#include <optional>
#include <string>
#include <utility>

#include "engine/chat/call_reader.hpp"
#include "engine/chat/output_reader.hpp"

namespace orcd::engine {

namespace {

constexpr std::string_view white_space = " \n\t\r";

bool is_space(char c) noexcept {
  return white_space.find(c) != std::string_view::npos;
}
bool is_name(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' ||
         c == '.' || c == ':';
}

class tagged_reader final : public output_reader {
 public:
  tagged_reader(const output_format& format, const parse_options& options)
      : calls_(options.tools ? format.calls : call_format::none),
        place_(options.in_reasoning && format.think ? place::reasoning : place::content) {
    if (place_ == place::reasoning) out.boundary();
  }

  void text(std::string_view text) override {
    while (!text.empty()) {
      // Content and reasoning are passed on in runs, everything else byte by byte.
      if (place_ == place::reasoning || (place_ == place::content && !may_be_bare(text))) {
        place_ == place::reasoning ? out.reasoning(text) : out.content(text);
        return;
      }
      one(text.front());
      text.remove_prefix(1);
    }
  }

  void mark(std::string_view mark) override {
    switch (place_) {
      case place::reasoning:
        if (mark != "</think>") return out.reasoning(mark);
        out.boundary();
        place_ = place::content;
        return;
      case place::object:
        if (call_.in_string()) return text(mark);
        break;
      case place::arguments:
        if (arguments_.in_string()) return text(mark);
        break;
      default: break;
    }
    if (place_ == place::name && (mark == "[ARGS]" || mark == "[CALL_ID]")) return after_name(mark);
    if (place_ == place::call_id && mark == "[ARGS]") return after_name(mark);
    if (place_ == place::between && mark == "</tool_call>") return leave_call();
    if (place_ == place::object && mark == "</tool_call>") {
      // A mark within a call: what came so far is a call that ended early, or text.
      const bool was_call = call_.committed();
      give_up({});
      if (!was_call) out.content(mark);
      if (was_call) out.boundary();
      return;
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
      case place::object: return call_.committed() && !call_.in_string();
      case place::arguments: return arguments_.started() && !arguments_.in_string();
      case place::content: return out.calls() > 0 && out.at_boundary();
      default: return false;
    }
  }

 private:
  /// Whether the text since the last mark or call may become a call and is none yet.
  [[nodiscard]] bool begins_call() const noexcept {
    switch (place_) {
      case place::object: return !call_.committed();
      case place::arguments: return !arguments_.started();
      case place::between:
      case place::list:
      case place::name:
      case place::call_id: return true;
      default: return false;
    }
  }

  enum class place { content, reasoning, object, between, list, name, call_id, arguments };

  // llama3: the whole output is a call, or several.
  [[nodiscard]] bool may_be_bare(std::string_view text) const {
    return calls_ == call_format::llama3 && !out.has_content() && out.calls() == 0 &&
           (is_space(text.front()) || text.front() == '{');
  }

  void one(char c) {
    switch (place_) {
      case place::reasoning: out.reasoning({&c, 1}); return;
      case place::content: return bare(c);
      case place::object: return in_object(c);
      case place::between: return between(c);
      case place::list: return list(c);
      case place::name: return in_name(c);
      case place::call_id:
        raw_ += c;
        if (raw_.size() > raw_max) give_up({});
        return;
      case place::arguments: return in_arguments(c);
    }
  }

  void bare(char c) {
    if (c != '{') return out.content({&c, 1});
    begin_object();
    in_object(c);
  }

  void open(std::string_view mark) {
    const bool starts = (mark == "<tool_call>" && calls_ == call_format::hermes) ||
                        (mark == "<|python_tag|>" && calls_ == call_format::llama3);
    if (starts) {
      raw_ = mark;
      begin_object();
    } else if (mark == "[TOOL_CALLS]" && calls_ == call_format::mistral) {
      raw_ = mark;
      place_ = place::list;
      in_list_ = false;
    } else if (mark == "<think>" && !out.has_content() && out.calls() == 0) {
      out.boundary();
      place_ = place::reasoning;
    } else {
      out.content(mark);
    }
  }

  void begin_object() {
    call_ = {};
    place_ = place::object;
  }

  void in_object(char c) {
    std::string fragment;
    const bool was_call = call_.committed();
    const auto v = call_.push(c, fragment);
    if (v == call_reader::verdict::wrong) return give_up({&c, 1});
    if (!was_call && !call_.committed()) {
      raw_ += c;
      if (raw_.size() > raw_max) give_up({});
      return;
    }
    if (!was_call) begin_call(call_.name());
    out.arguments(fragment);
    if (v == call_reader::verdict::done) place_ = place::between;
  }

  void begin_call(const std::string& name) {
    out.begin_call(name);
    raw_.clear();
  }

  // After a complete call: its closing tag, another call, or content.
  void between(char c) {
    if (is_space(c)) {
      raw_ += c;
      return;
    }
    const bool lists = calls_ == call_format::mistral && in_list_;
    if (lists && c == ']' && raw_.find(',') == std::string::npos) return leave_call();
    if ((lists && c == ',') || (calls_ == call_format::llama3 && c == ';')) {
      if (raw_.find_first_not_of(white_space) != std::string::npos) return give_up({&c, 1});
      raw_ += c;
      return;
    }
    const bool next = lists ? raw_.find(',') != std::string::npos : calls_ == call_format::llama3;
    if (c != '{' || !next) return give_up({&c, 1});
    begin_object();
    in_object(c);
  }

  void leave_call() {
    raw_.clear();
    out.boundary();
    place_ = place::content;
  }

  // mistral, after its mark: a list of calls, or a name.
  void list(char c) {
    raw_ += c;
    if (is_space(c) && raw_.size() <= raw_max) return;
    if (in_list_ && c == '{') {
      raw_.pop_back();
      begin_object();
      return in_object(c);
    }
    if (!in_list_ && c == '[') {
      in_list_ = true;
      return;
    }
    if (in_list_ || !is_name(c)) return give_up({});
    name_ = c;
    place_ = place::name;
  }

  void in_name(char c) {
    if (c == '{') {
      after_name({});
      return in_arguments(c);
    }
    raw_ += c;
    if (is_space(c) && raw_.size() <= raw_max) return;
    if (!is_name(c) || name_.size() >= call_reader::name_bytes_max) return give_up({});
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
    if (was == place::object && call_.committed()) {
      call_.complete(missing);
      out.arguments(missing);
      if (!rest.empty()) out.content(std::string(call_.held()) + std::string(rest));
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

  call_format calls_;
  place place_;
  bool in_list_ = false;
  std::string raw_;  ///< text since the last mark or call, in case it is content
  std::string name_;
  call_reader call_;
  argument_stream arguments_;
};

}  // namespace

std::unique_ptr<output_reader> make_tagged_reader(const output_format& format, const parse_options& options) {
  return std::make_unique<tagged_reader>(format, options);
}

}  // namespace orcd::engine
