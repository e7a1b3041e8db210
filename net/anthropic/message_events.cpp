#include "net/anthropic/message_events.hpp"

#include <utility>

#include "engine/chat/json_scanner.hpp"
#include "net/anthropic/conversation.hpp"
#include "net/http/respond.hpp"
#include "net/http/sse.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::output_delta;

/// Clients send thinking back only with a signature. This server has nothing to sign: it takes any.
constexpr std::string_view signature = "unsigned";
constexpr std::string_view call_prefix = "toolu_";

/// Tokens that came from the prefix cache are not counted as input again.
void append_usage(json_object& to, const engine::job_stats& stats, std::uint32_t reasoning_tokens) {
  json_object usage = to.object("usage");
  usage.integer("input_tokens", stats.tokens_in - stats.tokens_cached)
      .integer("cache_creation_input_tokens", 0)
      .integer("cache_read_input_tokens", stats.tokens_cached)
      .integer("output_tokens", stats.tokens_out);
  json_object details = usage.object("output_tokens_details");
  details.integer("thinking_tokens", reasoning_tokens);
  details.close();
  usage.close();
}

void append_stop(json_object& to, const message_end& end) {
  const bool whole = end.reason == engine::finish_reason::stop;
  to.text("stop_reason", !whole              ? "max_tokens"
                         : !end.stop.empty() ? "stop_sequence"
                         : end.calls > 0     ? "tool_use"
                                             : "end_turn");
  if (end.stop.empty()) {
    to.null("stop_sequence");
  } else {
    to.text("stop_sequence", end.stop);
  }
}

/// {"id","type","role","model": the beginning of a message.
json_object begin_message(std::string& out, const message_identity& identity) {
  json_object message(out);
  message.text("id", identity.id)
      .text("type", "message")
      .text("role", "assistant")
      .text("model", identity.model);
  return message;
}

class event_writer final : public message_writer {
 public:
  explicit event_writer(message_identity identity) : identity_(std::move(identity)), ids_(identity_.id) {}

  void started(std::string& out) override {
    std::string data = R"({"type":"message_start","message":)";
    json_object message = begin_message(data, identity_);
    message.raw("content", "[]").null("stop_reason").null("stop_sequence");
    engine::job_stats stats;
    stats.tokens_in = identity_.prompt_tokens;
    append_usage(message, stats, 0);
    message.close();
    append_event(out, "message_start", data + "}");
    keep_alive(out);
  }

  void part(std::string& out, const output_delta& part, message_progress&) override {
    switch (part.what) {
      case output_delta::kind::content:
        open(out, part, R"({"type":"text","text":""})");
        return add(out, "text_delta", "text", part.text);
      case output_delta::kind::reasoning:
        open(out, part, R"({"type":"thinking","thinking":"","signature":""})");
        if (!identity_.omit_reasoning) add(out, "thinking_delta", "thinking", part.text);
        return;
      case output_delta::kind::call: return begin_call(out, part);
      case output_delta::kind::arguments: return add(out, "input_json_delta", "partial_json", part.text);
    }
  }

  void ended(std::string& out, const message_end& end, message_progress&) override {
    close(out);
    std::string data;
    json_object event(data);
    event.text("type", "message_delta");
    json_object delta = event.object("delta");
    append_stop(delta, end);
    delta.close();
    append_usage(event, end.stats, end.reasoning_tokens);
    event.close();
    append_event(out, "message_delta", data);
    append_event(out, "message_stop", R"({"type":"message_stop"})");
  }

  void failed(std::string& out, const engine::error& failure) override {
    append_event(out, "error", anthropic_error_body(failure, http_status(failure.code), {}));
  }

  void keep_alive(std::string& out) override { append_event(out, "ping", R"({"type":"ping"})"); }

 private:
  /// Begins a block, unless one of the kind is open: what comes in pieces is one block.
  void open(std::string& out, const output_delta& part, std::string_view block) {
    if (open_ && what_ == part.what) return;
    begin(out, part.what, block);
  }

  void begin(std::string& out, output_delta::kind what, std::string_view block) {
    close(out);
    open_ = true;
    what_ = what;
    std::string data;
    json_object event(data);
    event.text("type", "content_block_start").integer("index", index_).raw("content_block", block);
    event.close();
    append_event(out, "content_block_start", data);
  }

  void begin_call(std::string& out, const output_delta& part) {
    std::string block;
    json_object call(block);
    call.text("type", "tool_use")
        .text("id", make_call_id(call_prefix, identity_.calls, ids_))
        .text("name", part.name)
        .raw("input", "{}");
    call.close();
    begin(out, part.what, block);
  }

  void add(std::string& out, std::string_view type, std::string_view name, std::string_view text) const {
    std::string data;
    json_object event(data);
    event.text("type", "content_block_delta").integer("index", index_);
    json_object delta = event.object("delta");
    delta.text("type", type).text(name, text);
    delta.close();
    event.close();
    append_event(out, "content_block_delta", data);
  }

  void close(std::string& out) {
    if (!std::exchange(open_, false)) return;
    if (what_ == output_delta::kind::reasoning) add(out, "signature_delta", "signature", signature);
    std::string data;
    json_object event(data);
    event.text("type", "content_block_stop").integer("index", index_++);
    event.close();
    append_event(out, "content_block_stop", data);
  }

  message_identity identity_;
  id_series ids_;
  bool open_ = false;                                      ///< a block
  output_delta::kind what_ = output_delta::kind::content;  ///< of the open block
  std::uint32_t index_ = 0;                                ///< of the open or the next block
};

bool is_whole(std::string_view json) {
  using verdict = engine::json_scanner::verdict;
  engine::json_scanner scanner;
  verdict last = verdict::more;
  for (const char c : json) {
    if (last != verdict::more) return false;
    last = scanner.push(c);
  }
  return last == verdict::done;
}

/// An object in any case. Arguments that were cut off are a text in it: no tool takes it for whole ones.
std::string input_of(const std::string& arguments) {
  if (arguments.empty()) return "{}";
  if (is_whole(arguments)) return arguments;
  std::string out;
  json_object input(out);
  input.text(cut_arguments, arguments);
  input.close();
  return out;
}

void append_block(std::string& out, const message_identity& identity, const whole_message::part& part) {
  json_object block(out);
  if (part.what == output_delta::kind::reasoning) {
    block.text("type", "thinking")
        .text("thinking", identity.omit_reasoning ? std::string_view() : part.text)
        .text("signature", signature);
  } else if (part.what == output_delta::kind::call) {
    block.text("type", "tool_use")
        .text("id", part.id)
        .text("name", part.name)
        .raw("input", input_of(part.text));
  } else {
    block.text("type", "text").text("text", part.text);
  }
  block.close();
}

}  // namespace

std::unique_ptr<message_writer> make_event_writer(message_identity identity) {
  return std::make_unique<event_writer>(std::move(identity));
}

std::unique_ptr<message_writer> make_block_collector(const message_identity& identity,
                                                     whole_message& message) {
  return std::make_unique<message_collector>(
      message, [calls = identity.calls, ids = id_series(identity.id)]() mutable {
        return make_call_id(call_prefix, calls, ids);
      });
}

std::string render_message(const message_identity& identity, const whole_message& message) {
  std::string content = "[";
  for (const auto& part : message.parts) {
    if (content.size() > 1) content += ',';
    append_block(content, identity, part);
  }
  content += ']';
  std::string out;
  json_object body = begin_message(out, identity);
  body.raw("content", content);
  append_stop(body, message.end);
  append_usage(body, message.end.stats, message.end.reasoning_tokens);
  body.close();
  return out;
}

}  // namespace orcd::net
