#include <array>
#include <span>
#include <utility>

#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/openai/completion_fields.hpp"

namespace orcd::net {

namespace json = boost::json;
using engine::result;

std::span<const completion_fields::rule> completion_fields::openai_rules() noexcept {
  using f = completion_fields;
  static constexpr std::array rules{
      // Both.
      rule{"model", true, true, &f::take_model},
      rule{"max_tokens", true, true, &f::take_max_tokens},
      rule{"temperature", true, true, &f::take_real},
      rule{"top_p", true, true, &f::take_real},
      rule{"min_p", true, true, &f::take_real},
      rule{"top_k", true, true, &f::take_count},
      rule{"repetition_penalty", true, true, &f::take_real},
      rule{"presence_penalty", true, true, &f::take_real},
      rule{"frequency_penalty", true, true, &f::take_real},
      rule{"repeat_last_n", true, true, &f::take_count},
      rule{"logit_bias", true, true, &f::take_logit_bias},
      rule{"logprobs", true, true, &f::take_logprobs},
      rule{"seed", true, true, &f::take_seed},
      rule{"stop", true, true, &f::take_stop},
      rule{"n", true, true, &f::take_choices},
      rule{"stream", true, true, &f::take_flag},
      rule{"stream_options", true, true, &f::take_stream_options},
      rule{"ignore_eos", true, true, &f::take_flag},
      rule{"timeout_ms", true, true, &f::take_timeout},
      rule{"cache_prompt", true, true, &f::take_flag},
      rule{"cache_salt", true, true, &f::take_cache_name},
      rule{"imc_id", true, true, &f::take_cache_name},
      rule{"lora", true, true, &f::take_lora},
      rule{"response_format", true, true, &f::take_response_format},
      rule{"prediction", true, true, &f::take_prediction},
      // Chat.
      rule{"messages", true, false, &f::take_messages},
      rule{"max_completion_tokens", true, true, &f::take_max_tokens},
      rule{"top_logprobs", true, false, &f::take_logprob_count},
      rule{"tools", true, false, &f::take_tools},
      rule{"tool_choice", true, false, &f::take_tool_choice},
      rule{"parallel_tool_calls", true, false, &f::take_flag},
      rule{"chat_template", true, false, &f::take_template},
      rule{"chat_template_kwargs", true, false, &f::take_template_variables},
      rule{"reasoning_effort", true, false, &f::take_template_variable},
      rule{"enable_thinking", true, false, &f::take_template_variable},
      rule{"modalities", true, false, &f::take_modalities},
      rule{"function_call", true, false, &f::take_unsupported},
      rule{"audio", true, false, &f::take_unsupported},
      rule{"web_search_options", true, false, &f::take_unsupported},
      // Text.
      rule{"prompt", false, true, &f::take_prompt},
      rule{"echo", false, true, &f::take_flag},
      rule{"best_of", false, true, &f::take_best_of},
      rule{"suffix", false, true, &f::take_suffix},
  };
  return rules;
}

const completion_fields::rule* completion_fields::find_rule(std::string_view name) noexcept {
  for (const auto rules : {openai_rules(), dialect_rules()}) {
    if (const rule* const found = find_named(rules, name)) return found;
  }
  return nullptr;
}

bool is_worker_field(std::string_view name) noexcept {
  static constexpr std::array<std::string_view, 26> names{"cache_prompt",
                                                          "cache_salt",
                                                          "chat_template_kwargs",
                                                          "dry_allowed_length",
                                                          "dry_base",
                                                          "dry_multiplier",
                                                          "dry_penalty_last_n",
                                                          "dry_sequence_breakers",
                                                          "dynatemp_exponent",
                                                          "dynatemp_range",
                                                          "frequency_penalty",
                                                          "ignore_eos",
                                                          "imc_id",
                                                          "logit_bias",
                                                          "lora",
                                                          "min_p",
                                                          "presence_penalty",
                                                          "repeat_last_n",
                                                          "repetition_penalty",
                                                          "seed",
                                                          "timeout_ms",
                                                          "top_k",
                                                          "top_n_sigma",
                                                          "typical_p",
                                                          "xtc_probability",
                                                          "xtc_threshold"};
  return is_listed(names, name);
}

result<void> completion_fields::take(std::string_view name, value_ref value) {
  const rule* const known = find_rule(name);
  const bool here = known != nullptr && (request_.kind == completion_kind::chat ? known->chat : known->text);
  if (!here) return take_other(name, value);
  if (value.is_null()) return {};
  field_ = name;
  return value.is_double() ? (this->*known->take)(without_fraction(value)) : (this->*known->take)(value);
}

/// What fields must be with regard to each other.
result<void> completion_fields::check_together() {
  if (limits_.strict_fields && has_stream_options_ && !request_.stream) {
    return refuse_field("stream_options", "needs 'stream': true");
  }
  if (has_top_logprobs_ && request_.top_logprobs > 0 && !request_.logprobs) {
    return refuse_field("top_logprobs", "needs 'logprobs': true");
  }
  if (best_of_ && *best_of_ != request_.choices) return refuse_field("best_of", "must be equal to 'n'");
  const auto& shape = request_.shape;
  if (shape.tokens && request_.echo_prompt) {
    return refuse_field("truncate_prompt_tokens", "cannot be beside 'echo'");
  }
  if (shape.continues && shape.generation_prompt.value_or(false)) {
    return refuse_field("continue_final_message", "cannot be beside 'add_generation_prompt': true");
  }
  if (shape.continues && has_messages_ && request_.messages.back().at("role") != json::value("assistant")) {
    return refuse_field("continue_final_message", "needs a last message of the assistant");
  }
  if (const auto same = check_samplers(); !same) return same;
  if (request_.max_tokens && request_.min_tokens > *request_.max_tokens) {
    return refuse_field("min_tokens", "is " + std::to_string(request_.min_tokens) + ", above '" +
                                          std::string(request_.max_tokens_field) + "', " +
                                          std::to_string(*request_.max_tokens));
  }
  return {};
}

result<completion_request> completion_fields::finish() && {
  const bool chat = request_.kind == completion_kind::chat;
  if (chat && !has_messages_) return refuse_field("messages", "is missing");
  if (!chat && request_.prompts.empty()) return refuse_field("prompt", "is missing");
  if (request_.max_tokens == 0 && !request_.echo_prompt) {
    return refuse_field(request_.max_tokens_field, "must be at least 1, it is 0; 0 needs 'echo': true");
  }
  if (const auto joined = join_suffix(); !joined) return joined.error();
  if (request_.prompts.size() * request_.choices > choices_max) {
    return refuse_field("n", "is " + std::to_string(request_.choices) + " for each of " +
                                 std::to_string(request_.prompts.size()) + " prompts; a request may have " +
                                 std::to_string(choices_max) + " choices together");
  }
  if (const auto fit = check_together(); !fit) return fit.error();
  constraint_fields_.strict_fields = limits_.strict_fields;
  auto adapters = adapters_of(adapters_, limits_.adapters);
  if (!adapters) return adapters.error();
  request_.adapters = std::move(*adapters);
  auto constraints = check_constraints(std::move(constraint_fields_));
  if (!constraints) return constraints.error();
  request_.constraints = std::move(*constraints);
  return std::move(request_);
}

result<completion_request> parse_completion(std::string_view body, completion_kind kind,
                                            const completion_limits& limits) {
  return read_fields(body, completion_fields(kind, limits));
}

}  // namespace orcd::net
