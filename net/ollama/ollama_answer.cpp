#include "net/ollama/ollama_answer.hpp"

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <boost/system/error_code.hpp>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "net/completion/logprob_text.hpp"
#include "net/http/respond.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::output_delta;

constexpr std::string_view call_prefix = "call_";

/// What one line says of the output.
struct line_parts {
  std::string_view content{};
  std::string_view thinking{};
  std::string_view calls{};     ///< a list; empty: none
  std::string_view logprobs{};  ///< likewise
};

/// The members of a message or, of /api/generate, of the answer itself.
void append_parts(json_object& to, std::string_view text_name, const line_parts& parts) {
  to.text(text_name, parts.content);
  if (!parts.thinking.empty()) to.text("thinking", parts.thinking);
  if (!parts.calls.empty()) to.raw("tool_calls", parts.calls);
}

void append_end(json_object& to, std::string_view reason, const engine::job_stats& stats) {
  to.text("done_reason", reason)
      .integer("total_duration", nanoseconds_of(stats.queue_ms + stats.prefill_ms + stats.decode_ms))
      .integer("load_duration", 0)
      .integer("prompt_eval_count", stats.tokens_in)
      .integer("prompt_eval_duration", nanoseconds_of(stats.prefill_ms))
      .integer("eval_count", stats.tokens_out)
      .integer("eval_duration", nanoseconds_of(stats.decode_ms));
}

std::string_view reason_of(const message_end& end) {
  return end.reason == engine::finish_reason::stop ? "stop" : "length";
}

/// One object; the last one where `end` is set.
std::string render_line(const ollama_identity& identity, const line_parts& parts, const message_end* end) {
  std::string out;
  json_object line(out);
  line.text("model", identity.model).text("created_at", identity.created_at);
  if (identity.use == ollama_use::chat) {
    json_object message = line.object("message");
    message.text("role", "assistant");
    append_parts(message, "content", parts);
    message.close();
  } else {
    append_parts(line, "response", parts);
  }
  if (!parts.logprobs.empty()) line.raw("logprobs", parts.logprobs);
  line.boolean("done", end != nullptr);
  if (end != nullptr) append_end(line, reason_of(*end), end->stats);
  line.close();
  return out;
}

bool is_object(std::string_view text) {
  boost::json::parse_options deep;
  deep.max_depth = 4'096;  // of what a model writes; the parser does not recurse
  boost::system::error_code wrong;
  const auto value = boost::json::parse(text, wrong, {}, deep);
  return !wrong && value.is_object();
}

/// The calls of a message, each with its number among them.
class call_list {
 public:
  /// Adds a call that is whole: its arguments are an object.
  void add(const whole_message::part& call) {
    const std::string_view arguments = call.text.empty() ? std::string_view("{}") : call.text;
    if (!is_object(arguments)) return;
    if (!list_.empty()) list_ += ',';
    json_object json(list_);
    json.text("id", call.id);
    json_object function = json.object("function");
    function.integer("index", count_++).text("name", call.name).raw("arguments", arguments);
    function.close();
    json.close();
  }

  /// Those that were added since the last time; empty: none.
  [[nodiscard]] std::string take() {
    return list_.empty() ? std::string() : "[" + std::exchange(list_, {}) + "]";
  }

 private:
  std::string list_;
  std::uint32_t count_ = 0;
};

/// An object as one line, for clients that split text wherever Unicode or Python sees the end of a line. What
/// ends lines can stand in a string, where it is escaped, and as white space in what a model wrote of a call.
std::string as_line(const std::string& object) {
  struct line_end {
    std::string_view bytes;
    std::string_view instead;
  };
  constexpr std::array ends{line_end{"\n", " "}, line_end{"\r", " "}, line_end{"\xC2\x85", "\\u0085"},
                            line_end{"\xE2\x80\xA8", "\\u2028"}, line_end{"\xE2\x80\xA9", "\\u2029"}};
  std::string out;
  out.reserve(object.size() + 1);
  for (std::string_view rest = object; !rest.empty();) {
    const auto* const found = std::find_if(ends.begin(), ends.end(),
                                           [rest](const auto& end) { return rest.starts_with(end.bytes); });
    const bool ends_line = found != ends.end();
    out += ends_line ? found->instead : rest.substr(0, 1);
    rest.remove_prefix(ends_line ? found->bytes.size() : 1);
  }
  return out + "\n";
}

class line_writer final : public message_writer {
 public:
  line_writer(ollama_identity identity, const engine::tokenizer& vocabulary)
      : identity_(std::move(identity)), vocabulary_(vocabulary), ids_(identity_.id) {}

  void started(std::string&) override {}

  void part(std::string& out, const output_delta& part, message_progress& progress) override {
    if (part.what == output_delta::kind::arguments) {
      if (call_) call_->text += part.text;
      return;
    }
    end_call(out, progress);
    switch (part.what) {
      case output_delta::kind::content: return write(out, {.content = part.text}, progress);
      case output_delta::kind::reasoning: return write(out, {.thinking = part.text}, progress);
      default: break;
    }
    call_ = whole_message::part{part.what, part.text, part.name,
                                make_call_id(call_prefix, identity_.calls, ids_)};
  }

  void ended(std::string& out, const message_end& end, message_progress& progress) override {
    end_call(out, progress);
    write(out, {}, progress, &end);
  }

  void failed(std::string& out, const engine::error& failure) override {
    out += as_line(ollama_error_body(failure));
  }

  [[nodiscard]] bool writes_values_once() const noexcept override { return true; }

  /// JSON has no comments: a space in front of the next object says nothing.
  void keep_alive(std::string& out) override { out += ' '; }

 private:
  /// Tells the call that has come, if one has.
  void end_call(std::string& out, message_progress& progress) {
    if (!call_) return;
    calls_.add(*std::exchange(call_, std::nullopt));
    const std::string list = calls_.take();
    if (!list.empty()) write(out, {.calls = list}, progress);
  }

  /// Writes a line, with the log probabilities that were kept.
  void write(std::string& out, line_parts parts, message_progress& progress,
             const message_end* end = nullptr) const {
    const auto entries = std::exchange(progress.logprobs, {});
    progress.ids.clear();
    std::string logprobs;
    if (identity_.logprobs && !entries.empty()) logprobs = render_token_list(entries, vocabulary_);
    parts.logprobs = logprobs;
    out += as_line(render_line(identity_, parts, end));
  }

  ollama_identity identity_;
  const engine::tokenizer& vocabulary_;
  id_series ids_;
  call_list calls_;
  std::optional<whole_message::part> call_;  ///< whose arguments are coming
};

}  // namespace

std::unique_ptr<message_writer> make_line_writer(ollama_identity identity,
                                                 const engine::tokenizer& vocabulary) {
  return std::make_unique<line_writer>(std::move(identity), vocabulary);
}

std::unique_ptr<message_writer> make_ollama_collector(const ollama_identity& identity,
                                                      whole_message& message) {
  return std::make_unique<message_collector>(
      message, [calls = identity.calls, ids = id_series(identity.id)]() mutable {
        return make_call_id(call_prefix, calls, ids);
      });
}

std::string render_ollama(const ollama_identity& identity, const whole_message& message,
                          const engine::tokenizer& vocabulary) {
  const std::string content = message.text_of(output_delta::kind::content);
  const std::string thinking = message.text_of(output_delta::kind::reasoning);
  call_list list;
  for (const auto& part : message.parts) {
    if (part.what == output_delta::kind::call) list.add(part);
  }
  const std::string calls = list.take();
  std::string logprobs;
  if (identity.logprobs) logprobs = render_token_list(message.logprobs, vocabulary);
  return render_line(identity, {content, thinking, calls, logprobs}, &message.end);
}

std::string render_loaded(const ollama_identity& identity) {
  std::string out;
  json_object answer(out);
  answer.text("model", identity.model).text("created_at", identity.created_at);
  if (identity.use == ollama_use::chat) {
    answer.raw("message", R"({"role":"assistant","content":""})");
  } else {
    answer.text("response", "");
  }
  answer.boolean("done", true).text("done_reason", "load");
  answer.close();
  return out;
}

std::int64_t nanoseconds_of(double milliseconds) noexcept {
  return std::llround(milliseconds * 1e6);
}

}  // namespace orcd::net
