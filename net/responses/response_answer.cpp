#include "net/responses/response_answer.hpp"

#include <utility>

#include "net/json/json_text.hpp"
#include "net/responses/input_items.hpp"

namespace orcd::net {
namespace {

std::string_view to_string(item_status status) {
  switch (status) {
    case item_status::in_progress: return "in_progress";
    case item_status::completed: return "completed";
    case item_status::incomplete: break;
  }
  return "incomplete";
}

std::string_view type_of(item_kind kind) {
  switch (kind) {
    case item_kind::reasoning: return "reasoning";
    case item_kind::message: return "message";
    case item_kind::call: return "function_call";
    case item_kind::custom_call: break;
  }
  return "custom_tool_call";
}

}  // namespace

response_answer::response_answer(response_identity identity, const engine::tokenizer& vocabulary)
    : identity_(std::move(identity)), vocabulary_(vocabulary) {}

std::string response_answer::render(const std::vector<logprob_entry>& logprobs) const {
  return logprobs.empty() ? "[]" : render_token_list(logprobs, vocabulary_);
}

std::string response_answer::render_part(const response_item& item, std::string_view text,
                                         bool logprobs) const {
  std::string out;
  json_object part(out);
  if (item.kind == item_kind::reasoning) {
    part.text("type", "reasoning_text").text("text", text);
  } else {
    // A part that has only begun has no text yet, and so no log probabilities.
    const std::string told = text.empty() || !logprobs ? "[]" : render(item.logprobs);
    part.text("type", "output_text").text("text", text).raw("annotations", "[]").raw("logprobs", told);
  }
  part.close();
  return out;
}

std::string response_answer::render(const response_item& item, bool logprobs) const {
  std::string out;
  json_object json(out);
  json.text("id", item.id).text("type", type_of(item.kind)).text("status", to_string(item.status));
  const bool begun = item.status != item_status::in_progress;
  const bool parts = begun && (item.kind == item_kind::reasoning || item.kind == item_kind::message);
  const std::string content = parts ? "[" + render_part(item, item.text, logprobs) + "]" : "[]";
  switch (item.kind) {
    case item_kind::reasoning:
      json.raw("summary", "[]").raw("content", content);
      if (begun && identity_.notes->seals_reasoning) {
        json.text("encrypted_content", seal_reasoning(item.text));
      } else {
        json.null("encrypted_content");
      }
      break;
    case item_kind::message: json.text("role", "assistant").raw("content", content); break;
    case item_kind::call:
    case item_kind::custom_call:
      json.text("call_id", item.call_id).text("name", item.name);
      if (!item.space.empty()) json.text("namespace", item.space);
      json.text(item.kind == item_kind::call ? "arguments" : "input", item.text);
      break;
  }
  json.close();
  return out;
}

std::string response_answer::usage() const {
  const auto& stats = end_.stats;
  std::string out;
  json_object json(out);
  json.integer("input_tokens", stats.tokens_in);
  json_object input = json.object("input_tokens_details");
  input.integer("cached_tokens", stats.tokens_cached).integer("cache_write_tokens", 0);
  input.close();
  json.integer("output_tokens", stats.tokens_out);
  json_object output = json.object("output_tokens_details");
  output.integer("reasoning_tokens", end_.reasoning_tokens);
  output.close();
  json.integer("total_tokens", std::uint64_t{stats.tokens_in} + stats.tokens_out);
  json.close();
  return out;
}

std::string response_answer::body() const {
  auto [out, after] = body_frame();
  bool first = true;
  for (const auto& item : items_) {
    if (item.status == item_status::in_progress) continue;
    if (!std::exchange(first, false)) out += ',';
    out += render(item);
  }
  return out + after;
}

kept_items response_answer::output() const {
  std::size_t logprobs = 0;
  for (const auto& item : items_) {
    for (const auto& entry : item.logprobs) logprobs += entry.logprobs.size();
  }
  kept_items out;
  out.reserve(items_.size());
  for (const auto& item : items_) {
    out.push_back({item.id, render(item, logprobs <= logprobs_repeated_max)});
  }
  return out;
}

response_answer::frame response_answer::body_frame() const {
  const bool over = state_ == state::completed || state_ == state::incomplete;
  std::string out;
  json_object json(out);
  json.text("id", identity_.id)
      .text("object", "response")
      .integer("created_at", identity_.created)
      .text("model", identity_.model);
  switch (state_) {
    case state::in_progress: json.text("status", "in_progress"); break;
    case state::completed: json.text("status", "completed"); break;
    case state::incomplete: json.text("status", "incomplete"); break;
    case state::failed: json.text("status", "failed"); break;
  }
  if (state_ == state::completed) {
    json.integer("completed_at", completed_);
  } else {
    json.null("completed_at");
  }
  json.raw("error", failure_.empty() ? std::string_view("null") : std::string_view(failure_));
  json.raw("incomplete_details", state_ == state::incomplete ? R"({"reason":"max_output_tokens"})" : "null");
  json.raw("output", "[");
  frame parts{std::move(out), {}};
  out = "]";
  json.raw("usage", over ? usage() : "null");
  out += ',';
  out += identity_.echo;
  if (over && identity_.notes->timings) append_timings(out, timing_of(end_.stats));
  json.close();
  parts.after = std::move(out);
  return parts;
}

void response_answer::end(const message_end& end) {
  end_ = end;
  completed_ = identity_.now();
  const bool cut = end.reason == engine::finish_reason::length;
  state_ = cut ? state::incomplete : state::completed;
}

void response_answer::fail(const engine::error& failure) {
  state_ = state::failed;
  // The API knows few codes; ours is in the message.
  const bool later = failure.code == engine::errc::queue_full;
  failure_.clear();
  json_object json(failure_);
  json.text("code", later ? "rate_limit_exceeded" : "server_error")
      .text("message", std::string(engine::code_name(failure.code)) + ": " + failure.message);
  json.close();
}

}  // namespace orcd::net
