#include "net/completion/completion_fields.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "net/completion/chat_messages.hpp"
#include "net/completion/infill_prompt.hpp"
#include "net/completion/sent_media.hpp"
#include "net/completion/template_variables.hpp"
#include "net/jobs/job_checks.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/limits.hpp"
#include "net/models/model_names.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::errc;
using engine::error;
using engine::result;

/// A bound above it is none: no context is as long.
constexpr std::uint32_t max_tokens_kept = std::numeric_limits<std::int32_t>::max();

/// Whether an object's key is meant as a token id, right or wrong.
bool looks_like_integer(std::string_view key) {
  if (key.starts_with('-')) key.remove_prefix(1);
  return !key.empty() && key.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

error completion_fields::wrong_kind(std::string_view must, value_ref value) const {
  return refuse_kind(field_, must, value);
}

result<std::uint64_t> completion_fields::integer(value_ref value, std::uint64_t low,
                                                 std::uint64_t high) const {
  return as_integer(field_, value, low, high);
}

result<bool> completion_fields::flag(value_ref value) const {
  return as_flag(field_, value);
}

result<void> completion_fields::take_model(value_ref value) {
  const auto name = as_text(field_, value);
  if (!name) return name.error();
  const auto adapter = find_model(limits_.served, limits_.adapters, *name);
  if (!adapter) return adapter.error();
  adapters_.named = *adapter;
  request_.model = adapters_.named == nullptr ? std::string() : adapters_.named->name;
  return {};
}

/// {} and "" ask for nothing.
result<void> completion_fields::take_lora(value_ref value) {
  if (value.is_object() && value.get_object().empty()) return {};
  if (value.is_string() && value.get_string().empty()) return {};
  auto scales = read_adapter_scales(field_, value);
  if (!scales) return scales.error();
  adapters_.scales = std::move(*scales);
  return {};
}

result<void> completion_fields::take_messages(value_ref value) {
  auto messages = read_messages(value, limits_.strict_fields, &request_.left_out, media.get());
  if (!messages) return messages.error();
  request_.messages = std::move(*messages);
  // DeepSeek's way to ask for an answer that continues the last message.
  const auto* prefix = value.get_array().back().get_object().if_contains("prefix");
  if (prefix != nullptr && *prefix == json::value(true)) request_.shape.continues = true;
  has_messages_ = true;
  return {};
}

result<std::vector<engine::token_id>> completion_fields::token_ids(const json::array& ids) const {
  const auto most = limits_.lengths.context_tokens;
  if (ids.size() > most) {
    return maximum_context_length(ids.size(), most, "prompt");
  }
  std::vector<engine::token_id> out;
  out.reserve(ids.size());
  for (const auto& id : ids) {
    const auto number = integer(id, 0, limits_.vocab - 1);
    if (!number) return number.error();
    out.push_back(static_cast<engine::token_id>(*number));
  }
  return out;
}

result<const json::value*> without_media(std::string_view field, const json::value& prompt) {
  const auto* object = prompt.if_object();
  if (object == nullptr) return &prompt;
  const std::string path(field);
  constexpr std::array<std::string_view, 2> known = {"prompt_string", "multimodal_data"};
  if (const auto ok = only_members(*object, path, known); !ok) return ok.error();
  if (const auto text = text_member(*object, path, "prompt_string"); !text) return text.error();
  const auto* media = find_member(*object, "multimodal_data");
  if (media != nullptr && *media != json::value(json::array())) {
    return refuse_field(path + ".multimodal_data", "must be empty: the model reads text");
  }
  return object->if_contains("prompt_string");
}

/// Adds one prompt: a text, or the ids of its tokens.
result<void> completion_fields::take_one_prompt(value_ref given) {
  const auto read = without_media(field_, given);
  if (!read) return read.error();
  const json::value& value = **read;
  if (const auto* ids = value.if_array()) {
    if (ids->empty()) return refuse("must not be empty");
    auto tokens = token_ids(*ids);
    if (!tokens) return tokens.error();
    request_.prompts.push_back({std::move(*tokens)});
    return {};
  }
  if (!value.is_string()) return wrong_kind("a string, a list of token ids, or a list of these", value);
  if (value.get_string().empty()) return refuse("must not be empty");
  std::string text(value.get_string());
  if (auto fits = check_length(field_, text, limits_.lengths.prompt_chars_max); !fits) return fits;
  request_.prompts.push_back({prompt_text{std::move(text)}});
  return {};
}

/// Text that the output is expected to repeat: {"type": "content", "content": TEXT}, or a list of texts.
result<void> completion_fields::take_prediction(value_ref value) {
  const auto* object = value.if_object();
  const auto* type = object == nullptr ? nullptr : object->if_contains("type");
  const auto* content = object == nullptr ? nullptr : object->if_contains("content");
  if (type == nullptr || content == nullptr || *type != json::value("content"))
    return refuse("must be an object with 'type': \"content\" and 'content'");
  std::string text;
  if (const auto* whole = content->if_string()) {
    text = *whole;
  } else if (const auto* parts = content->if_array()) {
    for (const auto& part : *parts) {
      const auto* of_part = part.is_object() ? part.get_object().if_contains("text") : nullptr;
      if (of_part == nullptr || !of_part->is_string())
        return refuse("has a part of 'content' without 'text'");
      text += of_part->get_string();
    }
  } else {
    return refuse("must have a string or a list of texts as 'content'");
  }
  if (auto fits = check_length(field_, text, limits_.lengths.prompt_chars_max); !fits) return fits;
  request_.prediction = std::move(text);
  return {};
}

/// What follows the gap that the output is to fill.
result<void> completion_fields::take_suffix(value_ref value) {
  if (!value.is_string()) return wrong_kind("a string", value);
  std::string text(value.get_string());
  if (text.empty()) return {};
  if (!limits_.infill.usable()) {
    return refuse("cannot be served: the model's vocabulary has no tokens for infill");
  }
  if (auto fits = check_length(field_, text, limits_.lengths.prompt_chars_max); !fits) return fits;
  suffix_ = std::move(text);
  return {};
}

result<void> completion_fields::join_suffix() {
  if (!suffix_) return {};
  if (request_.echo_prompt) return refuse_field("suffix", "cannot come with 'echo'");
  for (text_prompt& prompt : request_.prompts) {
    auto* const text = std::get_if<prompt_text>(&prompt.front());
    if (text == nullptr) return refuse_field("suffix", "needs prompts that are strings");
    infill_parts parts;
    parts.prefix = std::move(text->text);
    parts.suffix = *suffix_;
    prompt = make_infill_prompt(std::move(parts), limits_.infill);
  }
  return {};
}

result<void> completion_fields::take_prompt(value_ref value) {
  const auto* list = value.if_array();
  const bool several = list != nullptr && !list->empty() && !list->front().is_number();
  if (!several) return take_one_prompt(value);
  if (list->size() > choices_max) {
    return refuse("may be a list of " + std::to_string(choices_max) + " prompts, it has " +
                  std::to_string(list->size()));
  }
  for (const auto& prompt : *list) {
    if (auto added = take_one_prompt(prompt); !added) return added;
  }
  return {};
}

result<void> completion_fields::take_template(value_ref value) {
  if (!limits_.request_template) {
    return refuse("is taken only by a worker that was started with --allow-request-template");
  }
  if (!value.is_string()) return wrong_kind("a string", value);
  request_.chat_template = std::string(value.get_string());
  return {};
}

result<void> completion_fields::add_variable(std::string_view name, value_ref value) {
  if (is_own_variable(name)) {
    return refuse("must not set '" + std::string(name) + "'");
  }
  const auto [there, added] = request_.template_variables.emplace(name, value);
  if (!added && there->value() != value) {
    return refuse("sets '" + shown_name(name) + "', which another field sets too");
  }
  return {};
}

result<void> completion_fields::take_template_variables(value_ref value) {
  if (!value.is_object()) return wrong_kind("an object", value);
  for (const auto& variable : value.get_object()) {
    if (auto added = add_variable(variable.key(), variable.value()); !added) return added;
  }
  return {};
}

result<void> completion_fields::take_template_variable(value_ref value) {
  if (field_ == "enable_thinking") {
    if (const auto truth = flag(value); !truth) return truth.error();
  } else if (!value.is_string()) {
    return wrong_kind("a string", value);
  }
  return add_variable(field_, value);
}

result<void> completion_fields::take_max_tokens(value_ref value) {
  // What clients write for no limit of their own; llama-server's -2 is until the context is full.
  if (value == json::value(-1) || (field_ == "n_predict" && value == json::value(-2))) return {};
  // Nothing but the prompt itself may be asked for; finish() checks that it is.
  const std::uint64_t least = request_.kind == completion_kind::text ? 0 : 1;
  const bool beyond = value.is_uint64() || (value.is_int64() && value.get_int64() > max_tokens_kept);
  const auto number = integer(beyond ? json::value(max_tokens_kept) : value, least, max_tokens_kept);
  if (!number) return number.error();
  const auto tokens = static_cast<std::uint32_t>(*number);
  if (request_.max_tokens && *request_.max_tokens != tokens) {
    return refuse("is " + std::to_string(tokens) + ", but '" + std::string(request_.max_tokens_field) +
                  "' is " + std::to_string(*request_.max_tokens));
  }
  request_.max_tokens = tokens;
  request_.max_tokens_field = find_rule(field_)->name;
  return {};
}

result<void> completion_fields::take_timeout(value_ref value) {
  const auto number = integer(value, 1, limits_.lengths.timeout_ms_max());
  if (!number) return number.error();
  request_.timeout = std::chrono::milliseconds(*number);
  return {};
}

result<void> completion_fields::take_choices(value_ref value) {
  const auto number = integer(value, 1, choices_max);
  if (!number) return number.error();
  request_.choices = static_cast<std::uint32_t>(*number);
  return {};
}

result<void> completion_fields::take_best_of(value_ref value) {
  const auto number = integer(value, 1, choices_max);
  if (!number) return number.error();
  best_of_ = static_cast<std::uint32_t>(*number);
  return {};
}

result<void> completion_fields::take_stop(value_ref value) {
  const auto add = [this](value_ref stop) -> result<void> {
    if (!stop.is_string()) return wrong_kind("a string or an array of strings", stop);
    return add_stop(field_, std::string(stop.get_string()), stop_strings_max, request_.stop);
  };
  if (!value.is_array()) return add(value);
  for (const auto& stop : value.get_array()) {
    if (auto added = add(stop); !added) return added;
  }
  return {};
}

result<void> completion_fields::take_seed(value_ref value) {
  if (value == json::value(-1)) {  // llama-server's way to ask for a random one
    request_.seed.reset();
    return {};
  }
  // OpenAI's seeds are signed; a negative one is as good as any other.
  if (const auto* negative = value.if_int64(); negative != nullptr && *negative < 0) {
    request_.seed = static_cast<std::uint64_t>(*negative);
    return {};
  }
  const auto number = integer(value, 0, std::numeric_limits<std::uint64_t>::max());
  if (!number) return number.error();
  request_.seed = *number;
  return {};
}

result<void> completion_fields::take_logit_bias(value_ref value) {
  if (value.is_array()) return take_bias_list(value);
  if (!value.is_object()) return wrong_kind("an object", value);
  const auto& biases = value.get_object();
  if (biases.size() > engine::logit_biases_max) {
    return refuse("may have " + std::to_string(engine::logit_biases_max) + " tokens, it has " +
                  std::to_string(biases.size()));
  }
  for (const auto& bias : biases) {
    const std::string_view key = bias.key();
    if (!looks_like_integer(key)) {
      if (const auto added = add_text_bias(key, bias.value()); !added) return added;
      continue;
    }
    std::uint32_t id = 0;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), id);
    if (parsed.ec != std::errc{} || parsed.ptr != key.data() + key.size() || id >= limits_.vocab) {
      return refuse("has the key '" + shown_name(key) + "', which is no token id below " +
                    std::to_string(limits_.vocab));
    }
    if (const auto added = add_bias(id, bias.value()); !added) return added;
  }
  return sort_biases();
}

/// A bias of false forbids the token.
result<void> completion_fields::add_bias(std::uint32_t token, value_ref bias) {
  const auto id = static_cast<engine::token_id>(token);
  if (bias == json::value(false)) {
    request_.banned_tokens.push_back(id);
    if (request_.banned_tokens.size() <= token_list_max) return {};
    return refuse("may forbid " + std::to_string(token_list_max) + " tokens");
  }
  const auto given = scalar_of(bias);
  if (!given) return wrong_kind("numbers by token id", bias);
  const auto amount = check_real(field_, *given, {-logit_bias_max, logit_bias_max});
  if (!amount) return amount.error();
  request_.sampling.biases.push_back({id, *amount});
  return {};
}

result<void> completion_fields::sort_biases() {
  auto& list = request_.sampling.biases;
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.token < b.token; });
  const auto twice = std::adjacent_find(list.begin(), list.end(),
                                        [](const auto& a, const auto& b) { return a.token == b.token; });
  if (twice != list.end()) return refuse("names token " + std::to_string(twice->token) + " twice");
  return {};
}

result<void> completion_fields::take_logprobs(value_ref value) {
  if (request_.kind == completion_kind::chat) {
    if (value.is_number()) {
      return refuse("must be true or false; how many tokens are listed beside each is 'top_logprobs'");
    }
    const auto truth = flag(value);
    if (!truth) return truth.error();
    request_.logprobs = *truth;
    return {};
  }
  return take_logprob_count(value);
}

result<void> completion_fields::take_logprob_count(value_ref value) {
  const auto number = integer(value, 0, engine::top_logprobs_max);
  if (!number) return number.error();
  request_.top_logprobs = static_cast<std::uint32_t>(*number);
  if (request_.kind == completion_kind::text) request_.logprobs = true;
  has_top_logprobs_ = request_.kind == completion_kind::chat;
  return {};
}

result<void> completion_fields::take_stream_options(value_ref value) {
  if (!value.is_object()) return wrong_kind("an object", value);
  has_stream_options_ = true;
  for (const auto& option : value.get_object()) {
    field_ = "stream_options." + shown_name(option.key());
    if (option.value().is_null()) continue;
    // Only pads the chunks.
    if (option.key() == "include_obfuscation" && !limits_.strict_fields) continue;
    const bool running = option.key() == "continuous_usage_stats";
    if (!running && option.key() != "include_usage") return refuse("is not supported");
    const auto truth = flag(option.value());
    if (!truth) return truth.error();
    (running ? request_.usage_in_chunks : request_.include_usage) = *truth;
  }
  return {};
}

result<void> completion_fields::take_parallel_calls(value_ref value) {
  const auto truth = flag(value);
  if (!truth) return truth.error();
  constraint_fields_.parallel_tool_calls = *truth;
  return {};
}

result<void> completion_fields::take_tools(value_ref value) {
  if (!value.is_array()) return wrong_kind("an array", value);
  constraint_fields_.tools = value.get_array();
  return {};
}

result<void> completion_fields::take_tool_choice(value_ref value) {
  if (!value.is_string() && !value.is_object()) return wrong_kind("a string or an object", value);
  constraint_fields_.tool_choice = value;
  return {};
}

result<void> completion_fields::take_response_format(value_ref value) {
  if (!value.is_object()) return wrong_kind("an object", value);
  constraint_fields_.response_format = value;
  return {};
}

result<void> completion_fields::set_cache_name(value_ref value, std::string& to) {
  const auto name = as_text(field_, value);
  if (!name) return name.error();
  if (auto fits = check_cache_name(field_, *name); !fits) return fits;
  to = *name;
  return {};
}

result<void> completion_fields::take_modalities(value_ref value) {
  if (value == json::value(json::array{"text"})) return {};
  return refuse("must be [\"text\"]");
}

result<void> completion_fields::take_unsupported(value_ref) {
  return refuse("is not supported");
}

}  // namespace orcd::net
