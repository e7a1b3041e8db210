#include "net/openai/completion_answer.hpp"

#include <algorithm>
#include <utility>

#include "net/completion/answer_extras.hpp"
#include "net/http/sse.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::output_delta;

/// "id","object","created","model","system_fingerprint": the beginning of every object.
std::string opening(const completion_identity& identity, std::string_view object) {
  std::string out;
  json_object json(out);
  json.text("id", identity.id)
      .text("object", object)
      .integer("created", identity.created)
      .text("model", identity.model)
      .text("system_fingerprint", identity.system_fingerprint);
  return out;
}

void append_calls(std::string& out, const whole_message& message) {
  out += ",\"tool_calls\":[";
  for (const auto& part : message.parts) {
    if (part.what != output_delta::kind::call) continue;
    if (out.back() == '}') out += ',';
    json_object call(out);
    call.text("id", part.id).text("type", "function");
    json_object function = call.object("function");
    function.text("name", part.name).text("arguments", part.text);
    function.close();
    call.close();
  }
  out += ']';
}

/// {"role":"assistant",...}; content is null if there are only calls.
void append_message(std::string& out, const whole_message& message) {
  const std::string text = message.text_of(output_delta::kind::content);
  const std::string reasoning = message.text_of(output_delta::kind::reasoning);
  out += R"({"role":"assistant","content":)";
  if (text.empty() && message.end.calls > 0) {
    out += "null";
  } else {
    append_json_string(out, text);
  }
  if (!reasoning.empty()) {
    // By either of its names: some clients read the newer one alone, others the older.
    for (const std::string_view name : {"reasoning_content", "reasoning"}) {
      out += ",\"" + std::string(name) + "\":";
      append_json_string(out, reasoning);
    }
  }
  if (message.end.calls > 0) append_calls(out, message);
  out += ",\"refusal\":null}";
}

}  // namespace

completion_answer::completion_answer(completion_identity identity)
    : identity_(std::move(identity)), choices_(identity_.prompt_tokens.size() * identity_.choices) {
  const bool chat = identity_.kind == completion_kind::chat;
  for (std::size_t i = 0; identity_.vocabulary != nullptr && i < choices_.size(); i += identity_.choices) {
    choices_[i].values = std::make_shared<prompt_values>();
  }
  chunk_head_ = opening(identity_, chat ? "chat.completion.chunk" : "text_completion") + ",\"choices\":[";
}

std::string_view completion_answer::choice::finish_reason() const noexcept {
  const auto& end = message.end;
  const bool called = end.calls > 0 && end.reason == engine::finish_reason::stop;
  return called ? std::string_view("tool_calls") : std::string_view(to_string(end.reason));
}

std::string completion_answer::chunk_tail(std::uint32_t index, std::uint32_t tokens) const {
  if (!identity_.include_usage) return "]}";
  if (!identity_.usage_in_chunks) return identity_.null_usage ? "],\"usage\":null}" : "]}";
  std::string out = "],\"usage\":";
  json_object json(out);
  const std::uint64_t prompt = identity_.prompt_tokens.at(index / identity_.choices);
  json.integer("prompt_tokens", prompt)
      .integer("completion_tokens", tokens)
      .integer("total_tokens", prompt + tokens);
  json.close();
  return out + "}";
}

std::string completion_answer::usage() const {
  std::uint64_t generated = 0;
  std::uint64_t reasoning = 0;
  std::uint64_t drafts = 0;
  std::uint64_t drafts_right = 0;
  for (const auto& one : choices_) {
    generated += one.message.end.stats.tokens_out;
    reasoning += one.message.end.reasoning_tokens;
    drafts += one.message.end.stats.drafts;
    drafts_right += one.message.end.stats.drafts_right;
  }
  // A prompt counts once, however many choices it has.
  std::uint64_t prompt = 0;
  std::uint64_t of_cache = 0;
  for (std::size_t i = 0; i < choices_.size(); i += identity_.choices) {
    prompt += choices_[i].message.end.stats.tokens_in;
    of_cache += choices_[i].message.end.stats.tokens_cached;
  }
  std::string out;
  json_object json(out);
  json.integer("prompt_tokens", prompt)
      .integer("completion_tokens", generated)
      .integer("total_tokens", prompt + generated);
  json_object cached = json.object("prompt_tokens_details");
  cached.integer("cached_tokens", of_cache);
  if (identity_.audio_tokens > 0) cached.integer("audio_tokens", identity_.audio_tokens);
  cached.close();
  json_object details = json.object("completion_tokens_details");
  details.integer("reasoning_tokens", reasoning);
  if (identity_.predicted) {
    // Of those that were right, some may lie behind a stop string.
    const auto accepted = std::min<std::uint64_t>(drafts_right, generated);
    details.integer("accepted_prediction_tokens", accepted)
        .integer("rejected_prediction_tokens", drafts - accepted);
  }
  details.close();
  json.close();
  return out;
}

std::string completion_answer::closing() const {
  std::string out;
  if (identity_.include_usage) {
    out += "data: " + chunk_head_ + "],\"usage\":" + usage();
    if (identity_.shows.timings) append_timings(out, timing_of(choices_.front().message.end.stats));
    out += "}\n\n";
  }
  return out + "data: [DONE]\n\n";
}

void completion_answer::append_prompt_values(std::string& out, std::size_t index) const {
  if (identity_.vocabulary == nullptr) return;
  const auto& values = *choices_[index - index % identity_.choices].values;
  out += ",\"prompt_logprobs\":" + render_prompt_values(values, *identity_.vocabulary);
}

std::string completion_answer::body() const {
  const bool chat = identity_.kind == completion_kind::chat;
  std::string out = opening(identity_, chat ? "chat.completion" : "text_completion") + ",\"choices\":[";
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const auto& one = choices_[i];
    out += (i > 0 ? ",{\"index\":" : "{\"index\":") + std::to_string(i);
    out += chat ? R"(,"message":)" : R"(,"text":)";
    if (chat) {
      append_message(out, one.message);
    } else {
      append_json_string(out, one.message.text_of(output_delta::kind::content));
    }
    out += ",\"logprobs\":" + (one.logprobs ? one.logprobs() : "null");
    out += ",\"finish_reason\":";
    append_json_string(out, one.finish_reason());
    if (identity_.shows.token_ids) {
      append_ids(out, "token_ids", one.message.ids);
      if (!chat) append_ids(out, "prompt_token_ids", one.prompt_ids);
    }
    if (!chat) append_prompt_values(out, i);
    out += '}';
  }
  out += ']';
  const auto& first = choices_.front();
  if (identity_.shows.token_ids && chat) append_ids(out, "prompt_token_ids", first.prompt_ids);
  if (chat) append_prompt_values(out, 0);
  if (identity_.shows.timings) append_timings(out, timing_of(first.message.end.stats));
  return out + ",\"usage\":" + usage() + "}";
}

}  // namespace orcd::net
