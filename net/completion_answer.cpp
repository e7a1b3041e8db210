#include "net/completion_answer.hpp"

#include <utility>

#include "net/json_text.hpp"
#include "net/sse.hpp"

namespace orcd::net {
namespace {

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

void append_calls(std::string& out, const std::vector<completion_answer::call>& calls) {
  out += ",\"tool_calls\":[";
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i > 0) out += ',';
    json_object call(out);
    call.text("id", calls[i].id).text("type", "function");
    json_object function = call.object("function");
    function.text("name", calls[i].name).text("arguments", calls[i].arguments);
    function.close();
    call.close();
  }
  out += ']';
}

/// {"role":"assistant",...}: content is null where calls stand for it.
void append_message(std::string& out, const completion_answer::choice& choice) {
  out += R"({"role":"assistant","content":)";
  if (choice.text.empty() && !choice.calls.empty()) {
    out += "null";
  } else {
    append_json_string(out, choice.text);
  }
  if (!choice.reasoning.empty()) {
    out += ",\"reasoning_content\":";
    append_json_string(out, choice.reasoning);
  }
  if (!choice.calls.empty()) append_calls(out, choice.calls);
  out += ",\"refusal\":null}";
}

}  // namespace

completion_answer::completion_answer(completion_identity identity)
    : identity_(std::move(identity)), choices_(identity_.choices) {
  const bool chat = identity_.kind == completion_kind::chat;
  chunk_head_ = opening(identity_, chat ? "chat.completion.chunk" : "text_completion") + ",\"choices\":[";
}

std::string_view completion_answer::choice::finish_reason() const noexcept {
  const bool called = !calls.empty() && reason == engine::finish_reason::stop;
  return called ? std::string_view("tool_calls") : std::string_view(to_string(reason));
}

std::string completion_answer::chunk_tail(std::uint32_t tokens) const {
  if (!identity_.include_usage) return "]}";
  if (!identity_.usage_in_chunks) return "],\"usage\":null}";
  std::string out = "],\"usage\":";
  json_object json(out);
  json.integer("prompt_tokens", identity_.prompt_tokens)
      .integer("completion_tokens", tokens)
      .integer("total_tokens", std::uint64_t{identity_.prompt_tokens} + tokens);
  json.close();
  return out + "}";
}

std::string completion_answer::usage() const {
  std::uint64_t generated = 0;
  std::uint64_t reasoning = 0;
  for (const auto& choice : choices_) {
    generated += choice.stats.tokens_out;
    reasoning += choice.reasoning_tokens;
  }
  const auto& prompt = choices_.front().stats;  // the same for all
  std::string out;
  json_object json(out);
  json.integer("prompt_tokens", prompt.tokens_in)
      .integer("completion_tokens", generated)
      .integer("total_tokens", prompt.tokens_in + generated);
  json_object cached = json.object("prompt_tokens_details");
  cached.integer("cached_tokens", prompt.tokens_cached);
  cached.close();
  json_object details = json.object("completion_tokens_details");
  details.integer("reasoning_tokens", reasoning);
  details.close();
  json.close();
  return out;
}

std::string completion_answer::closing() const {
  std::string out;
  if (identity_.include_usage) out += "data: " + chunk_head_ + "],\"usage\":" + usage() + "}\n\n";
  return out + "data: [DONE]\n\n";
}

std::string completion_answer::whole() const {
  const bool chat = identity_.kind == completion_kind::chat;
  std::string out = opening(identity_, chat ? "chat.completion" : "text_completion") + ",\"choices\":[";
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    const auto& choice = choices_[i];
    out += (i > 0 ? ",{\"index\":" : "{\"index\":") + std::to_string(i);
    out += chat ? R"(,"message":)" : R"(,"text":)";
    chat ? append_message(out, choice) : append_json_string(out, choice.text);
    out += ",\"logprobs\":" + (choice.logprobs.empty() ? "null" : choice.logprobs);
    out += ",\"finish_reason\":";
    append_json_string(out, choice.finish_reason());
    out += '}';
  }
  return out + "],\"usage\":" + usage() + "}";
}

}  // namespace orcd::net
