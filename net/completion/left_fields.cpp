#include "net/completion/left_fields.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "net/json/names.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using namespace std::string_view_literals;

// Whose the fields are: OpenAI; OpenRouter; llama-server; vLLM; SGLang; LiteLLM; Ollama and LM Studio;
// others.
constexpr std::array of_requests = {
    // clang-format off
    "user"sv, "metadata"sv, "store"sv,
    "service_tier"sv, "verbosity"sv,
    "prompt_cache_key"sv, "prompt_cache_retention"sv,
    "prompt_cache_options"sv, "safety_identifier"sv,
    "provider"sv, "route"sv, "models"sv,
    "session_id"sv, "trace"sv, "cache_control"sv,
    "id_slot"sv, "slot_id"sv, "n_keep"sv,
    "n_discard"sv, "n_cache_reuse"sv, "sse_ping_interval"sv,
    "backend_sampling"sv, "mirostat_tau"sv, "mirostat_eta"sv,
    "adaptive_decay"sv, "speculative.n_max"sv,
    "speculative.n_min"sv, "speculative.p_min"sv,
    "speculative.types"sv,
    "length_penalty"sv, "spaces_between_special_tokens"sv,
    "priority"sv, "request_id"sv, "stream_interval"sv,
    "guided_decoding_backend"sv, "mm_processor_kwargs"sv,
    "media_io_kwargs"sv, "return_token_offsets"sv,
    "return_mm_kwargs"sv, "routed_experts_prompt_start"sv,
    "rid"sv, "stream_reasoning"sv, "data_parallel_rank"sv,
    "litellm_metadata"sv, "litellm_call_id"sv,
    "litellm_session_id"sv, "litellm_trace_id"sv, "tags"sv,
    "cache"sv, "caching"sv,
    "keep_alive"sv, "ttl"sv, "draft_model"sv,
    "user_id"sv, "chat_id"sv, "conversation_id"sv,
    "message_id"sv, "user_security_context"sv,
    "vl_high_resolution_images"sv, "perf_metrics_in_response"sv,
    // clang-format on
};

constexpr std::array of_messages = {
    "id"sv,
    "cache_control"sv,
    "reasoning_details"sv,
    "thinking_blocks"sv,
    "provider_specific_fields"sv,
    "extra_content"sv,
    "annotations"sv,
    "refusal"sv,
    "metadata"sv,
    "created_at"sv,
    "timestamp"sv,
    "index"sv,
    "status"sv,
    "phase"sv,
};

constexpr std::array of_parts = {
    "id"sv,          "cache_control"sv, "provider_specific_fields"sv,
    "annotations"sv, "extra_content"sv, "citations"sv,
    "metadata"sv,    "index"sv,         "logprobs"sv,
};

constexpr std::array of_calls = {
    "index"sv,  "provider_specific_fields"sv, "extra_content"sv, "thought_signature"sv, "cache_control"sv,
    "status"sv,
};

constexpr std::array of_tools = {
    "cache_control"sv, "defer_loading"sv, "extra_content"sv, "provider_specific_fields"sv, "id"sv,
    "metadata"sv,
};

constexpr std::array of_functions = {
    "cache_control"sv,
    "defer_loading"sv,
    "provider_specific_fields"sv,
    "thought_signature"sv,
};

/// A value with which a field asks for nothing.
enum class idle { zero, one, not_positive, is_false, is_true, empty };

struct idle_rule {
  std::string_view name;
  idle value;
};

constexpr std::array idle_rules = {
    idle_rule{"n_indent", idle::zero},
    idle_rule{"n_probs", idle::zero},
    idle_rule{"mirostat", idle::zero},
    idle_rule{"min_keep", idle::zero},
    idle_rule{"tfs_z", idle::one},
    idle_rule{"adaptive_target", idle::not_positive},
    idle_rule{"t_max_predict_ms", idle::not_positive},
    idle_rule{"t_max_prompt_ms", idle::not_positive},
    idle_rule{"post_sampling_probs", idle::is_false},
    idle_rule{"return_tokens", idle::is_false},
    idle_rule{"verbose", idle::is_false},
    idle_rule{"use_beam_search", idle::is_false},
    idle_rule{"watermarking", idle::is_false},
    idle_rule{"return_prompt_text", idle::is_false},
    idle_rule{"return_hidden_states", idle::is_false},
    idle_rule{"safe_prompt", idle::is_false},
    idle_rule{"enable_search", idle::is_false},
    idle_rule{"no_stop_trim", idle::is_false},
    idle_rule{"parse_tool_calls", idle::is_true},
    idle_rule{"vllm_xargs", idle::empty},
    idle_rule{"transforms", idle::empty},
    idle_rule{"plugins", idle::empty},
    idle_rule{"functions", idle::empty},
};

bool is_empty(const json::value& value) noexcept {
  return (value.is_array() && value.get_array().empty()) ||
         (value.is_object() && value.get_object().empty()) ||
         (value.is_string() && value.get_string().empty());
}

bool is_number(const json::value& value, double low, double high) {
  if (!value.is_number()) return false;
  const auto number = value.to_number<double>();
  return number >= low && number <= high;
}

/// Empty if the value is the idle one, else what it must be.
std::string_view judge(idle wanted, const json::value& value) {
  constexpr double lowest = -1e300;
  switch (wanted) {
    case idle::zero: return is_number(value, 0, 0) ? "" : "must be 0: this worker has no such thing";
    case idle::one: return is_number(value, 1, 1) ? "" : "must be 1: this worker has no such thing";
    case idle::not_positive:
      return is_number(value, lowest, 0) ? "" : "must not be above 0: this worker has no such thing";
    case idle::is_false:
      return value == json::value(false) ? "" : "must be false: this worker has no such thing";
    case idle::is_true: return value == json::value(true) ? "" : "must be true: calls are always read";
    case idle::empty: return is_empty(value) ? "" : "must be empty: this worker has no such thing";
  }
  return "is not supported";
}

}  // namespace

std::span<const std::string_view> left_fields(field_place place) noexcept {
  switch (place) {
    case field_place::request: return of_requests;
    case field_place::message: return of_messages;
    case field_place::part: return of_parts;
    case field_place::call: return of_calls;
    case field_place::tool: return of_tools;
    case field_place::function: return of_functions;
  }
  return {};
}

void note_left(left_names& notes, std::string_view kind, std::string_view name) {
  constexpr std::size_t names_max = 8;
  constexpr std::size_t name_bytes_max = 40;
  std::string note = std::string(kind) + "=";
  for (const char c : name.substr(0, name_bytes_max)) {
    note += is_alphanumeric(c) || std::string_view("-_.").find(c) != std::string_view::npos ? c : '?';
  }
  if (notes.size() == names_max || std::find(notes.begin(), notes.end(), note) != notes.end()) return;
  notes.push_back(std::move(note));
}

void append_left(std::string& header, const left_names& notes) {
  for (const std::string& note : notes) header += (header.empty() ? "" : ", ") + note;
}

idle_field check_idle_field(std::string_view name, const json::value& value) {
  const auto* const rule = find_named(idle_rules, name);
  if (rule == nullptr) return {};
  return {true, judge(rule->value, value)};
}

}  // namespace orcd::net
