// The fields that OpenAI does not have and clients of llama-server, vLLM, OpenRouter and others send.
#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "net/completion/completion_fields.hpp"
#include "net/completion/left_fields.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/limits.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// The members of vLLM's structured_outputs.
struct named_kind {
  std::string_view name;
  guided_kind kind;
};
constexpr std::array guided_kinds = {
    named_kind{"json", guided_kind::json},       named_kind{"json_object", guided_kind::json_object},
    named_kind{"regex", guided_kind::regex},     named_kind{"choice", guided_kind::choice},
    named_kind{"grammar", guided_kind::grammar},
};

}  // namespace

std::span<const completion_fields::rule> completion_fields::dialect_rules() noexcept {
  using f = completion_fields;
  static constexpr std::array rules{
      rule{"repeat_penalty", of_both | of_llama,
           &f::take_real_of_names<engine::repetition_penalty_range, &params::repetition_penalty,
                                  &f::repetition_field_>},
      rule{"n_predict", of_both, &f::take_max_tokens},
      rule{"max_new_tokens", of_both, &f::take_max_tokens},
      rule{"min_tokens", of_both, &f::take_min_tokens},
      rule{"bad_words", of_both | of_llama, &f::take_bad_words},
      rule{"prompt_logprobs", of_both, &f::take_prompt_logprobs},
      rule{"samplers", of_both | of_llama, &f::take_samplers},
      rule{"dry_multiplier", of_both | of_all | of_llama,
           &f::take_real<engine::dry_multiplier_range, &params::dry_multiplier>},
      rule{"dry_base", of_both | of_all | of_llama, &f::take_dry_base},
      rule{"dry_allowed_length", of_both | of_all | of_llama,
           &f::take_count<&params::dry_allowed_length, engine::dry_allowed_length_max>},
      rule{"dry_penalty_last_n", of_both | of_all | of_llama,
           &f::take_count<&params::dry_last_n, std::numeric_limits<std::int32_t>::max(),
                          engine::whole_sequence>},
      rule{"dry_sequence_breakers", of_both | of_all | of_llama, &f::take_breakers},
      rule{"xtc_probability", of_both | of_all | of_llama,
           &f::take_real<engine::share_range, &params::xtc_probability>},
      rule{"xtc_threshold", of_both | of_all | of_llama,
           &f::take_real<engine::share_range, &params::xtc_threshold>},
      rule{"typical_p", of_both | of_all | of_llama,
           &f::take_real_of_names<engine::share_range, &params::typical_p, &f::typical_field_>},
      rule{"typ_p", of_both | of_llama,
           &f::take_real_of_names<engine::share_range, &params::typical_p, &f::typical_field_>},
      rule{"top_n_sigma", of_both | of_all | of_llama,
           &f::take_real<engine::top_n_sigma_range, &params::top_n_sigma>},
      rule{"dynatemp_range", of_both | of_all | of_llama, &f::take_temperature<&params::dynatemp_range>},
      rule{"dynatemp_exponent", of_both | of_all | of_llama,
           &f::take_real<engine::dynatemp_exponent_range, &params::dynatemp_exponent>},
      rule{"stop_token_ids", of_both, &f::take_token_list<&asked::stop_tokens, true>},
      rule{"allowed_token_ids", of_both, &f::take_token_list<&asked::allowed_tokens, false>},
      rule{"include_stop_str_in_output", of_both, &f::take_flag<&asked::shows, &answer_shape::stop_string>},
      rule{"skip_special_tokens", of_both,
           &f::take_inverted_flag<&asked::shows, &answer_shape::special_tokens>},
      rule{"return_token_ids", of_both, &f::take_flag<&asked::shows, &answer_shape::token_ids>},
      rule{"return_tokens_as_token_ids", of_both, &f::take_flag<&asked::shows, &answer_shape::tokens_as_ids>},
      rule{"timings_per_token", of_both | of_llama, &f::take_flag<&asked::shows, &answer_shape::timings>},
      rule{"return_progress", of_both | of_llama, &f::take_flag<&asked::shows, &answer_shape::progress>},
      rule{"truncate_prompt_tokens", of_both, &f::take_truncation},
      rule{"truncation_side", of_both, &f::take_truncation_side},
      rule{"add_special_tokens", of_both, &f::take_special_tokens},
      rule{"usage", of_both, &f::take_usage},
      rule{"json_schema", of_both | of_llama, &f::take_guided<guided_kind::json>},
      rule{"guided_json", of_both, &f::take_guided<guided_kind::json>},
      rule{"guided_regex", of_both, &f::take_guided<guided_kind::regex>},
      rule{"regex", of_both, &f::take_guided<guided_kind::regex>},
      rule{"guided_choice", of_both, &f::take_guided<guided_kind::choice>},
      rule{"guided_grammar", of_both, &f::take_guided<guided_kind::grammar>},
      rule{"grammar", of_both | of_llama, &f::take_grammar},
      rule{"ebnf", of_both, &f::take_guided<guided_kind::grammar>},
      rule{"structured_outputs", of_both, &f::take_structured_outputs},
  };
  return rules;
}

std::span<const completion_fields::rule> completion_fields::reasoning_rules() noexcept {
  using f = completion_fields;
  static constexpr std::array rules{
      rule{"reasoning", of_chats, &f::take_reasoning},
      rule{"reasoning_format", of_chats, &f::take_reasoning_format},
      rule{"include_reasoning", of_chats, &f::take_flag<&asked::shows, &answer_shape::reasoning>},
      rule{"separate_reasoning", of_chats,
           &f::take_inverted_flag<&asked::shows, &answer_shape::raw_reasoning>},
      rule{"thinking", of_chats, &f::take_thinking},
      rule{"thinking_budget", of_both, &f::take_reasoning_budget},
      rule{"thinking_budget_tokens", of_both, &f::take_reasoning_budget},
      rule{"thinking_token_budget", of_both, &f::take_reasoning_budget},
      rule{"reasoning_budget", of_both, &f::take_reasoning_budget},
      rule{"reasoning_budget_tokens", of_both, &f::take_reasoning_budget},
      rule{"documents", of_chats, &f::take_documents},
      rule{"add_generation_prompt", of_chats, &f::take_flag<&asked::shape, &prompt_shape::generation_prompt>},
      rule{"continue_final_message", of_chats, &f::take_flag<&asked::shape, &prompt_shape::continues>},
  };
  return rules;
}

result<void> completion_fields::set_tokens(value_ref value, std::vector<engine::token_id>& list,
                                           bool may_be_empty) {
  if (!value.is_array()) return wrong_kind("an array of token ids", value);
  const auto& ids = value.get_array();
  if (ids.size() > token_list_max) {
    return refuse("may have " + std::to_string(token_list_max) + " token ids, it has " +
                  std::to_string(ids.size()));
  }
  if (!may_be_empty && ids.empty()) return refuse("must not be empty: no token could be chosen");
  for (const auto& id : ids) {
    const auto number = integer(id, 0, limits_.vocab - 1);
    if (!number) return number.error();
    list.push_back(static_cast<engine::token_id>(*number));
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return {};
}

result<void> completion_fields::take_min_tokens(value_ref value) {
  const auto number = integer(value, 0, std::numeric_limits<std::uint32_t>::max());
  if (!number) return number.error();
  request_.min_tokens = static_cast<std::uint32_t>(*number);
  return {};
}

/// llama-server's form: [[token id or text, bias], ...], where the bias false forbids the tokens.
result<void> completion_fields::take_bias_list(value_ref value) {
  const auto& pairs = value.get_array();
  for (const auto& pair : pairs) {
    const auto* parts = pair.if_array();
    if (parts == nullptr || parts->size() != 2) {
      return wrong_kind("pairs of a token id, or a text, and a bias", pair);
    }
    if (parts->front().is_string()) {
      const auto added = add_text_bias(parts->front().get_string(), parts->back());
      if (!added) return added;
      continue;
    }
    const auto id = integer(parts->front(), 0, limits_.vocab - 1);
    if (!id) return id.error();
    const auto added = add_bias(static_cast<std::uint32_t>(*id), parts->back());
    if (!added) return added;
    if (request_.sampling.biases.size() > engine::logit_biases_max) {
      return refuse("may have " + std::to_string(engine::logit_biases_max) + " tokens, it has " +
                    std::to_string(pairs.size()));
    }
  }
  return sort_biases();
}

/// The tokens of a text; what they are is known where the vocabulary is.
result<void> completion_fields::add_text_bias(std::string_view text, value_ref bias) {
  if (text.empty() || text.size() > stop_bytes_max) {
    return refuse("texts must have 1 to " + std::to_string(stop_bytes_max) + " bytes, one has " +
                  std::to_string(text.size()));
  }
  if (request_.text_biases.size() == engine::logit_biases_max) {
    return refuse("may have " + std::to_string(engine::logit_biases_max) + " texts, it has more");
  }
  text_bias out{std::string(text), std::nullopt};
  if (bias != json::value(false)) {
    const auto amount = as_real(field_, bias, {-logit_bias_max, logit_bias_max});
    if (!amount) return amount.error();
    out.bias = *amount;
  }
  request_.text_biases.push_back(std::move(out));
  return {};
}

result<void> completion_fields::take_bad_words(value_ref value) {
  if (!value.is_array()) return wrong_kind("an array of strings", value);
  const auto& words = value.get_array();
  if (words.size() > bad_words_max) {
    return refuse("may have " + std::to_string(bad_words_max) + " words, it has " +
                  std::to_string(words.size()));
  }
  for (const auto& word : words) {
    const auto text = as_text(field_, word);
    if (!text) return text.error();
    if (text->find_first_not_of(' ') == std::string_view::npos || text->size() > stop_bytes_max) {
      return refuse("words must have 1 to " + std::to_string(stop_bytes_max) + " bytes besides spaces");
    }
    request_.bad_words.emplace_back(*text);
  }
  return {};
}

/// vLLM's.
result<void> completion_fields::take_prompt_logprobs(value_ref value) {
  if (value == json::value(false)) return {};
  if (value == json::value(-1)) return refuse("cannot be -1: those of the whole vocabulary are not told");
  const auto number = integer(value, 0, engine::top_logprobs_max);
  if (!number) return number.error();
  request_.prompt_logprobs = static_cast<std::uint32_t>(*number);
  return {};
}

result<void> completion_fields::take_truncation_side(value_ref value) {
  const bool first = value == json::value("right");
  if (!first && value != json::value("left")) return refuse("must be 'left' or 'right'");
  request_.shape.keeps_first = first;
  return {};
}

result<void> completion_fields::take_truncation(value_ref value) {
  if (value == json::value(-1)) {
    request_.shape.tokens = -1;
    return {};
  }
  const auto number = integer(value, 1, std::numeric_limits<std::uint32_t>::max());
  if (!number) return number.error();
  request_.shape.tokens = static_cast<std::int64_t>(*number);
  return {};
}

result<void> completion_fields::take_special_tokens(value_ref value) {
  const auto truth = flag(value);
  if (!truth) return truth.error();
  if (request_.kind == completion_kind::chat && *truth) {
    return refuse("must be false: the chat template adds the special tokens");
  }
  request_.shape.add_special = *truth;
  return {};
}

/// By any of the names that it has; a negative limit is none.
result<void> completion_fields::take_reasoning_budget(value_ref value) {
  std::optional<std::uint32_t> most;
  const auto* const negative = value.if_int64();
  if (negative == nullptr || *negative >= 0) {
    const auto number = integer(value, 0, std::numeric_limits<std::int32_t>::max());
    if (!number) return number.error();
    if (request_.kind == completion_kind::text) return refuse("limits reasoning, which only chats have");
    most = static_cast<std::uint32_t>(*number);
  }
  if (!budget_field_.empty() && most != request_.reasoning_tokens_max) {
    return refuse("contradicts '" + budget_field_ + "'");
  }
  budget_field_ = field_;
  request_.reasoning_tokens_max = most;
  return {};
}

/// OpenRouter's object.
result<void> completion_fields::take_reasoning(value_ref value) {
  if (!value.is_object()) return wrong_kind("an object", value);
  for (const auto& member : value.get_object()) {
    if (member.value().is_null()) continue;
    field_ = "reasoning." + shown_name(member.key());
    result<void> taken;
    if (member.key() == "effort") {
      if (const auto text = as_text(field_, member.value()); !text) return text.error();
      taken = add_variable("reasoning_effort", member.value());
    } else if (member.key() == "enabled") {
      if (const auto truth = flag(member.value()); !truth) return truth.error();
      taken = add_variable("enable_thinking", member.value());
    } else if (member.key() == "exclude") {
      const auto truth = flag(member.value());
      if (!truth) return truth.error();
      request_.shows.reasoning = !*truth;
    } else if (member.key() == "max_tokens") {
      taken = take_reasoning_budget(member.value());
    } else if (member.key() != "summary" && member.key() != "generate_summary") {
      return refuse("is not supported");
    }
    if (!taken) return taken;
  }
  return {};
}

/// llama-server's names and Groq's.
result<void> completion_fields::take_reasoning_format(value_ref value) {
  const auto is = [&](std::string_view name) { return value == json::value(name); };
  if (is("none") || is("raw")) {
    request_.shows.raw_reasoning = true;
  } else if (is("hidden")) {
    request_.shows.reasoning = false;
  } else if (!is("auto") && !is("deepseek") && !is("parsed")) {
    return refuse("must be 'auto', 'deepseek', 'parsed', 'none', 'raw' or 'hidden'");
  }
  return {};
}

/// Anthropic's object, which DeepSeek and GLM take too.
result<void> completion_fields::take_thinking(value_ref value) {
  if (!value.is_object()) return wrong_kind("an object", value);
  for (const auto& member : value.get_object()) {
    if (member.value().is_null()) continue;
    field_ = "thinking." + shown_name(member.key());
    if (member.key() == "budget_tokens") {
      if (auto taken = take_reasoning_budget(member.value()); !taken) return taken;
      continue;
    }
    if (member.key() != "type") return refuse("is not supported");
    if (member.value() == json::value("adaptive")) continue;
    const bool on = member.value() == json::value("enabled");
    if (!on && member.value() != json::value("disabled")) {
      return refuse("must be 'enabled', 'disabled' or 'adaptive'");
    }
    if (auto added = add_variable("enable_thinking", json::value(on)); !added) return added;
  }
  return {};
}

result<void> completion_fields::take_documents(value_ref value) {
  if (!value.is_array()) return wrong_kind("an array of objects", value);
  for (const auto& document : value.get_array()) {
    if (!document.is_object()) return wrong_kind("an array of objects", document);
  }
  request_.documents = value.get_array();
  return {};
}

/// OpenRouter's way to ask for the usage at the end of a stream.
result<void> completion_fields::take_usage(value_ref value) {
  const auto* object = value.if_object();
  if (object == nullptr) return wrong_kind("an object", value);
  for (const auto& member : *object) {
    field_ = "usage." + shown_name(member.key());
    if (member.key() != "include") return refuse("is not supported");
    const auto truth = flag(member.value());
    if (!truth) return truth.error();
    request_.include_usage = request_.include_usage || *truth;
  }
  return {};
}

/// Sets what the output must be; only one field may, but clients send the older and the newer name of one.
result<void> completion_fields::guide(guided_kind kind, value_ref value) {
  auto& guided = constraint_fields_.guided;
  if (guided && guided->kind == kind && guided->value == value) return {};
  if (guided) return refuse("cannot be beside '" + guided->field + "'");
  guided = guided_output{field_, kind, value};
  return {};
}

/// llama-server's clients send a grammar that is none.
result<void> completion_fields::take_grammar(value_ref value) {
  return value == json::value("") ? result<void>() : guide(guided_kind::grammar, value);
}

/// vLLM's object, of which one member says what the output must be.
result<void> completion_fields::take_structured_outputs(value_ref value) {
  if (!value.is_object()) return wrong_kind("an object", value);
  for (const auto& member : value.get_object()) {
    if (member.value().is_null() || member.value() == json::value(false)) continue;
    field_ = "structured_outputs." + shown_name(member.key());
    const auto* const kind = find_named(guided_kinds, member.key());
    if (kind == nullptr) return refuse("is not supported");
    const auto taken = guide(kind->kind, member.value());
    if (!taken) return taken;
  }
  return {};
}

result<void> completion_fields::take_other(std::string_view name, value_ref value) {
  if (limits_.strict_fields) return unknown_field(name);
  if (value.is_null() || is_listed(left_fields(field_place::request), name)) return {};
  const auto idle = check_idle_field(name, value);
  if (!idle.known) return unknown_field(name);
  if (idle.must.empty()) return {};
  return refuse_field(name, std::string(idle.must));
}

}  // namespace orcd::net
