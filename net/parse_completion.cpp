#include <algorithm>
#include <array>
#include <utility>

#include "net/completion_fields.hpp"

namespace orcd::net {

using engine::result;

const completion_fields::rule* completion_fields::find_rule(std::string_view name) noexcept {
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
      rule{"user", true, true, &f::take_label},
      // Chat.
      rule{"messages", true, false, &f::take_messages},
      rule{"max_completion_tokens", true, false, &f::take_max_tokens},
      rule{"top_logprobs", true, false, &f::take_logprob_count},
      rule{"tools", true, false, &f::take_tools},
      rule{"tool_choice", true, false, &f::take_tool_choice},
      rule{"parallel_tool_calls", true, false, &f::take_flag},
      rule{"response_format", true, false, &f::take_response_format},
      rule{"chat_template", true, false, &f::take_template},
      rule{"chat_template_kwargs", true, false, &f::take_template_variables},
      rule{"reasoning_effort", true, false, &f::take_template_variable},
      rule{"enable_thinking", true, false, &f::take_template_variable},
      rule{"metadata", true, false, &f::take_metadata},
      rule{"store", true, false, &f::take_only_false},
      rule{"service_tier", true, false, &f::take_service_tier},
      rule{"modalities", true, false, &f::take_modalities},
      rule{"safety_identifier", true, false, &f::take_label},
      rule{"prompt_cache_key", true, false, &f::take_label},
      rule{"functions", true, false, &f::take_unsupported},
      rule{"function_call", true, false, &f::take_unsupported},
      rule{"audio", true, false, &f::take_unsupported},
      rule{"prediction", true, false, &f::take_unsupported},
      rule{"verbosity", true, false, &f::take_unsupported},
      rule{"web_search_options", true, false, &f::take_unsupported},
      // Text.
      rule{"prompt", false, true, &f::take_prompt},
      rule{"echo", false, true, &f::take_only_false},
      rule{"best_of", false, true, &f::take_best_of},
      rule{"suffix", false, true, &f::take_unsupported},
  };
  const auto* const found =
      std::find_if(rules.begin(), rules.end(), [name](const rule& r) { return r.name == name; });
  return found == rules.end() ? nullptr : found;
}

result<void> completion_fields::take(std::string_view name, value_ref value) {
  const rule* const known = find_rule(name);
  const bool here = known != nullptr && (request_.kind == completion_kind::chat ? known->chat : known->text);
  if (!here) return unknown_field(name);
  if (value.is_null()) return {};
  field_ = name;
  return (this->*known->take)(value);
}

result<completion_request> completion_fields::finish() && {
  const bool chat = request_.kind == completion_kind::chat;
  if (chat && !has_messages_) return refuse_field("messages", "is missing");
  if (!chat && !request_.prompt && request_.prompt_tokens.empty())
    return refuse_field("prompt", "is missing");
  if (has_stream_options_ && !request_.stream) return refuse_field("stream_options", "needs 'stream': true");
  if (has_top_logprobs_ && !request_.logprobs) return refuse_field("top_logprobs", "needs 'logprobs': true");
  if (best_of_ && *best_of_ != request_.choices) return refuse_field("best_of", "must be equal to 'n'");
  auto demand = check_constraints(std::move(constraints_));
  if (!demand) return demand.error();
  request_.demand = std::move(*demand);
  return std::move(request_);
}

result<completion_request> parse_completion(std::string_view body, completion_kind kind,
                                            const completion_limits& limits) {
  const auto tree = read_json_tree(body);
  if (!tree) return tree.error();
  completion_fields fields(kind, limits);
  for (const auto& field : *tree) {
    if (const auto taken = fields.take(field.key(), field.value()); !taken) return taken.error();
  }
  return std::move(fields).finish();
}

}  // namespace orcd::net
