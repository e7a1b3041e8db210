#include <array>
#include <span>
#include <utility>

#include "net/completion/completion_fields.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/limits.hpp"

namespace orcd::net {

namespace json = boost::json;
using engine::result;

std::span<const completion_fields::rule> completion_fields::openai_rules() noexcept {
  using f = completion_fields;
  static constexpr std::array rules{
      // Both.
      rule{"model", of_both | of_llama, &f::take_model},
      rule{"max_tokens", of_both, &f::take_max_tokens},
      rule{"temperature", of_both | of_llama, &f::take_temperature<&params::temperature>},
      rule{"top_p", of_both | of_llama, &f::take_real<engine::top_p_range, &params::top_p>},
      rule{"min_p", of_both | of_all | of_llama, &f::take_real<engine::min_p_range, &params::min_p>},
      rule{"top_k", of_both | of_all | of_llama, &f::take_count<&params::top_k, top_k_max, 0>},
      rule{"repetition_penalty", of_both | of_all,
           &f::take_real_of_names<engine::repetition_penalty_range, &params::repetition_penalty,
                                  &f::repetition_field_>},
      rule{"presence_penalty", of_both | of_all | of_llama,
           &f::take_real<engine::penalty_range, &params::presence_penalty>},
      rule{"frequency_penalty", of_both | of_all | of_llama,
           &f::take_real<engine::penalty_range, &params::frequency_penalty>},
      rule{"repeat_last_n", of_both | of_all | of_llama, &f::take_repeat_last_n},
      rule{"logit_bias", of_both | of_all | of_llama, &f::take_logit_bias},
      rule{"logprobs", of_both, &f::take_logprobs},
      rule{"seed", of_both | of_all | of_llama, &f::take_seed},
      rule{"stop", of_both | of_llama, &f::take_stop},
      rule{"n", of_both | of_llama, &f::take_choices},
      rule{"stream", of_both | of_llama, &f::take_flag<&asked::stream>},
      rule{"stream_options", of_both, &f::take_stream_options},
      rule{"ignore_eos", of_both | of_all | of_llama, &f::take_flag<&asked::ignore_eos>},
      rule{"timeout_ms", of_both | of_all | of_llama, &f::take_timeout},
      rule{"cache_prompt", of_both | of_all | of_llama,
           &f::take_flag<&asked::cache, &engine::cache_request::enabled>},
      rule{"cache_salt", of_both | of_all | of_llama, &f::take_cache_name<&engine::cache_request::salt>},
      rule{"imc_id", of_both | of_all | of_llama, &f::take_cache_name<&engine::cache_request::session>},
      rule{"lora", of_both | of_all | of_llama, &f::take_lora},
      rule{"response_format", of_both, &f::take_response_format},
      rule{"prediction", of_both, &f::take_prediction},
      // Chat.
      rule{"messages", of_chats, &f::take_messages},
      rule{"max_completion_tokens", of_both, &f::take_max_tokens},
      rule{"top_logprobs", of_chats, &f::take_logprob_count},
      rule{"tools", of_chats, &f::take_tools},
      rule{"tool_choice", of_chats, &f::take_tool_choice},
      rule{"parallel_tool_calls", of_chats, &f::take_parallel_calls},
      rule{"chat_template", of_chats, &f::take_template},
      rule{"chat_template_kwargs", of_chats | of_all, &f::take_template_variables},
      rule{"reasoning_effort", of_chats, &f::take_template_variable},
      rule{"enable_thinking", of_chats, &f::take_template_variable},
      rule{"modalities", of_chats, &f::take_modalities},
      rule{"function_call", of_chats, &f::take_unsupported},
      rule{"audio", of_chats, &f::take_unsupported},
      rule{"web_search_options", of_chats, &f::take_unsupported},
      // Text.
      rule{"prompt", of_texts, &f::take_prompt},
      rule{"echo", of_texts, &f::take_flag<&asked::echo_prompt>},
      rule{"best_of", of_texts, &f::take_best_of},
      rule{"suffix", of_texts, &f::take_suffix},
  };
  return rules;
}

const completion_fields::rule* completion_fields::find_rule(std::string_view name) noexcept {
  for (const auto rules : {openai_rules(), dialect_rules(), reasoning_rules()}) {
    if (const rule* const found = find_named(rules, name)) return found;
  }
  return nullptr;
}

bool is_worker_field(std::string_view name) noexcept {
  const auto* const known = completion_fields::find_rule(name);
  return known != nullptr && (known->apis & completion_fields::of_all) != 0;
}

bool is_llama_field(std::string_view name) noexcept {
  const auto* const known = completion_fields::find_rule(name);
  return known != nullptr && (known->apis & completion_fields::of_llama) != 0;
}

result<void> completion_fields::take(std::string_view name, value_ref value) {
  const rule* const known = find_rule(name);
  const auto kind = request_.kind == completion_kind::chat ? of_chats : of_texts;
  const bool here = known != nullptr && (known->apis & kind) != 0;
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
  if (request_.prompt_logprobs && request_.stream) {
    return refuse_field("prompt_logprobs", "cannot be beside 'stream': true");
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
