// Harmony (gpt-oss): messages of a header (role, recipient, channel) and a body. The channel analysis is
// reasoning; final, and commentary without a recipient, are content; a message to functions.N is a call of N.
// Headers are read tolerantly: one that is not understood becomes content.
#include <string>
#include <utility>

#include "engine/chat/argument_stream.hpp"
#include "engine/chat/output_reader.hpp"

namespace orcd::engine {

namespace {

constexpr std::string_view white_space = " \n\t\r";
constexpr std::size_t header_bytes_max = 400;

bool is_blank(std::string_view text) noexcept {
  return text.find_first_not_of(white_space) == std::string_view::npos;
}

// The first word from `at`.
std::string_view word(std::string_view text, std::size_t at) noexcept {
  const std::size_t first = text.find_first_not_of(white_space, at);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_first_of(white_space, first) - first);
}

class harmony_reader final : public output_reader {
 public:
  explicit harmony_reader(const parse_options& options) : tools_(options.tools) {}

  void text(std::string_view text) override {
    switch (place_) {
      case place::header: return header(text);
      case place::reasoning: return out.reasoning(text);
      case place::content: return out.content(text);
      case place::arguments:
        while (!text.empty() && place_ == place::arguments) {
          argument(text.front());
          text.remove_prefix(1);
        }
        if (!text.empty()) out.content(text);
        return;
      case place::between:
        if (is_blank(text)) return;
        place_ = place::content;
        return out.content(text.substr(text.find_first_not_of(white_space)));
    }
  }

  void mark(std::string_view mark) override {
    if (place_ == place::header) return mark_in_header(mark);
    if (mark == "<|start|>" || mark == "<|channel|>") {
      leave();
      begin_header(mark);
    } else if (mark == "<|message|>" || mark == "<|constrain|>") {
      if (place_ == place::between) {
        place_ = place::content;
      } else {
        text(mark);
      }
    } else {
      leave();
      place_ = place::between;
    }
  }

  void end(output_end how) override {
    const bool cut = how == output_end::cut;
    // A call that was cut off before its arguments, and a header that was cut off, are nothing yet.
    if (cut && place_ == place::arguments && !arguments_.started()) return;
    leave();
    if (place_ == place::header && !cut && out.calls() == 0) out.content(std::exchange(raw_, {}));
  }

  bool in_reasoning() const noexcept override { return place_ == place::reasoning; }
  bool awaits_mark() const noexcept override {
    if (place_ == place::arguments) return finished_ || (arguments_.started() && !arguments_.in_string());
    return place_ == place::between || (place_ == place::header && out.calls() > 0);
  }
  bool may_take(std::string_view) const override { return true; }

 private:
  enum class place { header, reasoning, content, arguments, between };

  void begin_header(std::string_view mark) {
    place_ = place::header;
    raw_ = mark;
    role_.clear();
    channel_.clear();
    in_channel_ = mark == "<|channel|>";
  }

  void header(std::string_view text) {
    raw_ += text;
    (in_channel_ ? channel_ : role_) += text;
    // Without a mark before it only a recipient may come: everything else is a message without a header.
    const bool unmarked = raw_ == role_;
    const std::string_view first = word(role_, 0);
    const bool known = std::string_view("assistant").starts_with(first) || first.starts_with("assistant") ||
                       std::string_view("to=").starts_with(first) || first.starts_with("to=");
    if (raw_.size() > header_bytes_max || (unmarked && !known)) give_up();
  }

  void mark_in_header(std::string_view mark) {
    if (mark == "<|message|>") return open_body();
    if (mark == "<|channel|>") {
      // A channel that is named again replaces the first one.
      raw_ += mark;
      in_channel_ = true;
      channel_.clear();
    } else if (mark == "<|constrain|>") {
      raw_ += mark;
      (in_channel_ ? channel_ : role_) += ' ';
    } else if (mark == "<|start|>") {
      if (is_blank(channel_)) return begin_header(mark);
      give_up();
      leave();
      begin_header(mark);
    } else {
      give_up();
      leave();
      place_ = place::between;
    }
  }

  void give_up() {
    place_ = place::content;
    out.content(std::exchange(raw_, {}));
  }

  // "to=" may stand in the role or in the channel.
  [[nodiscard]] std::string recipient() const {
    for (const std::string* part : {&channel_, &role_}) {
      const std::size_t at = part->find("to=");
      if (at == std::string::npos) continue;
      std::string_view name = word(*part, at + 3);
      if (name.starts_with("functions.")) name.remove_prefix(std::string_view("functions.").size());
      if (!name.empty() && name != "assistant" && name != "all" && name != "user") return std::string(name);
    }
    return {};
  }

  void open_body() {
    raw_ += "<|message|>";
    name_ = recipient();
    out.boundary();
    if (!name_.empty() && tools_) {
      arguments_ = {};
      finished_ = spoilt_ = false;
      place_ = place::arguments;
      return;
    }
    place_ = word(channel_, 0) == "analysis" && name_.empty() ? place::reasoning : place::content;
    raw_.clear();
  }

  void argument(char c) {
    if (spoilt_) return spoil(c);
    if (finished_) {
      // A bracket too many is no text.
      if (white_space.find(c) != std::string_view::npos || c == '}') return;
      place_ = place::content;
      return out.content({&c, 1});
    }
    std::string fragment;
    const bool was_call = arguments_.started();
    const auto v = arguments_.push(c, fragment);
    if (v == argument_stream::verdict::wrong || v == argument_stream::verdict::outside) {
      spoilt_ = was_call;
      if (was_call) return spoil(c);
      place_ = place::content;
      return out.content(std::exchange(raw_, {}) + c);
    }
    if (!arguments_.started()) {
      raw_ += c;
      return;
    }
    if (!was_call) {
      out.begin_call(name_);
      raw_.clear();
    }
    out.arguments(fragment);
    finished_ = v == argument_stream::verdict::done;
  }

  void spoil(char c) {
    std::string fragment;
    arguments_.spoil(c, fragment);
    out.arguments(fragment);
  }

  // The message ends here, complete or not.
  void leave() {
    if (place_ == place::arguments && !finished_) {
      const bool none = !arguments_.started();
      if (none) out.begin_call(name_);
      std::string rest = none ? "{}" : "";
      if (!spoilt_) arguments_.leave(rest);
      out.arguments(rest);
      raw_.clear();
    }
    if (place_ == place::header) return;
    out.finish();
    place_ = place::between;
  }

  bool tools_;
  place place_ = place::header;
  bool in_channel_ = false;
  bool finished_ = false;  ///< the arguments are complete
  bool spoilt_ = false;    ///< they went wrong: what comes is passed on as it is
  std::string raw_;        ///< the header as text, in case it is content
  std::string role_, channel_, name_;
  argument_stream arguments_;
};

}  // namespace

std::unique_ptr<output_reader> make_harmony_reader(const parse_options& options) {
  return std::make_unique<harmony_reader>(options);
}

}  // namespace orcd::engine
