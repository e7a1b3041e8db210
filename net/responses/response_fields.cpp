#include "net/responses/response_fields.hpp"

#include <array>
#include <utility>

#include "net/json/names.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {

namespace json = boost::json;
using engine::result;

result<void> response_fields::take_as_chat(value_ref value) {
  return chat_.take(field_, value);
}

result<void> response_fields::take_max_tokens(value_ref value) {
  if (value == boost::json::value(-1)) return refuse_field(field_, "must be at least 1, it is -1");
  const auto taken = chat_.take("max_completion_tokens", value);
  if (!taken) return in_words_of_responses(taken.error());
  return {};
}

result<void> response_fields::take_instructions(value_ref value) {
  if (!value.is_string()) return refuse_kind(field_, "a string", value);
  instructions_ = value;
  return {};
}

result<void> response_fields::take_input(value_ref value) {
  input_ = value;
  return {};
}

result<void> response_fields::take_tools(value_ref value) {
  tools_ = value;
  return {};
}

result<void> response_fields::take_tool_choice(value_ref value) {
  tool_choice_ = value;
  return {};
}

result<void> response_fields::word(const json::object& from, std::string_view member,
                                   std::initializer_list<std::string_view> words) const {
  if (find_member(from, member) == nullptr) return {};
  const auto given = text_member(from, field_, member);
  if (!given) return given.error();
  if (is_listed(words, *given)) return {};
  std::string all;
  for (const auto one : words) all += (all.empty() ? "one of " : ", ") + std::string(one);
  return refuse_word(field_ + "." + std::string(member), all, *given);
}

result<void> response_fields::take_text(value_ref value) {
  const auto* text = value.if_object();
  if (text == nullptr) return refuse_kind(field_, "an object", value);
  constexpr std::array<std::string_view, 2> known = {"format", "verbosity"};
  if (const auto ok = only_members(*text, field_, known); !ok) return ok;
  if (const auto ok = word(*text, "verbosity", {"low", "medium", "high"}); !ok) return ok;
  if (const auto* format = find_member(*text, "format")) return take_format(*format);
  return {};
}

/// A format of this API is one object, that of a chat has the schema in an object of its own.
result<void> response_fields::take_format(value_ref value) {
  const std::string path = "text.format";
  const auto* format = value.if_object();
  if (format == nullptr) return refuse_kind(path, "an object", value);
  constexpr std::array<std::string_view, 5> known = {"type", "name", "description", "schema", "strict"};
  if (const auto ok = only_members(*format, path, known); !ok) return ok;
  const auto type = text_member(*format, path, "type");
  if (!type) return type.error();
  json::object chat{{"type", *type}};
  if (*type == "json_schema") {
    // A chat takes a schema without one.
    if (find_member(*format, "name") == nullptr) return refuse_field(path + ".name", "is missing");
    json::object schema(*format);
    schema.erase("type");
    chat["json_schema"] = std::move(schema);
  } else if (find_member(*format, "schema") != nullptr) {
    return refuse_field(path + ".schema", "needs 'type': 'json_schema'");
  }
  const auto taken = chat_.take("response_format", chat);
  if (!taken) return in_words_of_responses(taken.error());
  return {};
}

result<void> response_fields::take_reasoning(value_ref value) {
  const auto* reasoning = value.if_object();
  if (reasoning == nullptr) return refuse_kind(field_, "an object", value);
  constexpr std::array<std::string_view, 5> known = {"effort", "summary", "generate_summary", "context",
                                                     "mode"};
  if (const auto ok = only_members(*reasoning, field_, known); !ok) return ok;
  for (const std::string_view summary : {"summary", "generate_summary"}) {
    if (const auto ok = word(*reasoning, summary, {"auto", "concise", "detailed", "none"}); !ok) return ok;
  }
  if (const auto ok = word(*reasoning, "context", {"auto", "current_turn", "all_turns"}); !ok) return ok;
  if (const auto ok = word(*reasoning, "mode", {"standard"}); !ok) return ok;
  if (find_member(*reasoning, "effort") == nullptr) return {};
  const auto effort = text_member(*reasoning, field_, "effort");
  if (!effort) return effort.error();
  const auto ok = word(*reasoning, "effort", {"none", "minimal", "low", "medium", "high", "xhigh", "max"});
  if (!ok) return ok;
  // Templates know three efforts.
  const bool least = *effort == "none" || *effort == "minimal";
  const bool most = *effort == "xhigh" || *effort == "max";
  hints_["reasoning_effort"] = least ? "low" : most ? "high" : *effort;
  hints_["enable_thinking"] = *effort != "none";
  return {};
}

result<void> response_fields::take_include(value_ref value) {
  const auto* list = value.if_array();
  if (list == nullptr) return refuse_kind(field_, "an array of strings", value);
  // What belongs to items that this worker never makes is in none of its answers.
  constexpr std::array<std::string_view, 8> known = {
      "reasoning.encrypted_content",   "message.output_text.logprobs",
      "message.input_image.image_url", "file_search_call.results",
      "web_search_call.results",       "web_search_call.action.sources",
      "code_interpreter_call.outputs", "computer_call_output.output.image_url"};
  for (std::size_t i = 0; i < list->size(); ++i) {
    const auto& one = (*list)[i];
    const std::string path = element_path(field_, i);
    if (!one.is_string()) return refuse_kind(path, "a string", one);
    const std::string_view name = one.get_string();
    if (!is_listed(known, name)) {
      return refuse_field(path, "is '" + shown_name(name) + "', which is nothing that an answer has");
    }
    if (name == known[0]) seals_reasoning_ = true;
    if (name == known[1]) logprobs_ = true;
  }
  return {};
}

result<void> response_fields::take_top_logprobs(value_ref value) {
  const auto count = as_integer(field_, value, 0, engine::top_logprobs_max);
  if (!count) return count.error();
  top_logprobs_ = *count;
  return {};
}

result<void> response_fields::take_stream_options(value_ref value) {
  const auto* options = value.if_object();
  if (options == nullptr) return refuse_kind(field_, "an object", value);
  constexpr std::array<std::string_view, 1> known = {"include_obfuscation"};
  if (const auto ok = only_members(*options, field_, known); !ok) return ok;
  const auto padded = flag_member(*options, field_, "include_obfuscation");
  if (!padded) return padded.error();
  if (*padded) {
    return refuse_field(field_ + ".include_obfuscation", "must be false: this worker has no such thing");
  }
  return {};
}

result<void> response_fields::take_store(value_ref value) {
  if (!value.is_bool()) return refuse_kind(field_, "true or false", value);
  if (value.get_bool() && !limits_.shelf) return refuse("must be false: this worker stores no responses");
  stores_ = value.get_bool();
  return {};
}

/// llama-server's.
result<void> response_fields::take_timings(value_ref value) {
  const auto wanted = as_flag(field_, value);
  if (!wanted) return wanted.error();
  timings_ = *wanted;
  return {};
}

result<void> response_fields::take_label(value_ref value) {
  const auto label = as_text(field_, value);
  return label ? result<void>() : label.error();
}

result<void> response_fields::take_object(value_ref value) {
  if (!value.is_object()) return refuse_kind(field_, "an object", value);
  return {};
}

/// The limits are those of the API: the answer repeats it.
result<void> response_fields::take_metadata(value_ref value) {
  constexpr std::size_t pairs_max = 16;
  constexpr std::size_t key_bytes_max = 64;
  constexpr std::size_t value_bytes_max = 512;
  const auto* pairs = value.if_object();
  if (pairs == nullptr) return refuse_kind(field_, "an object", value);
  if (pairs->size() > pairs_max) {
    return refuse("may have " + std::to_string(pairs_max) + " members, it has " +
                  std::to_string(pairs->size()));
  }
  for (const auto& pair : *pairs) {
    const std::string path = field_ + "." + shown_name(pair.key());
    if (!pair.value().is_string()) return refuse_kind(path, "a string", pair.value());
    const auto bytes = pair.value().get_string().size();
    if (pair.key().size() > key_bytes_max || bytes > value_bytes_max) {
      return refuse_field(path, "may have a key of " + std::to_string(key_bytes_max) + " and a value of " +
                                    std::to_string(value_bytes_max) + " bytes, it has " +
                                    std::to_string(pair.key().size()) + " and " + std::to_string(bytes));
    }
  }
  return {};
}

result<void> response_fields::take_count(value_ref value) {
  constexpr std::uint64_t most = 1'000'000;
  if (const auto count = as_integer(field_, value, 0, most); !count) return count.error();
  return {};
}

result<void> response_fields::take_only_false(value_ref value) {
  const auto on = as_flag(field_, value);
  if (!on) return on.error();
  if (*on) return refuse("must be false: this worker has no such thing");
  return {};
}

result<void> response_fields::take_truncation(value_ref value) {
  if (value == json::value("disabled")) return {};
  return refuse("must be 'disabled': this worker truncates nothing");
}

result<void> response_fields::take_previous(value_ref value) {
  if (!limits_.shelf) return take_conversation(value);
  if (!value.is_string()) return refuse_kind(field_, "a string", value);
  previous_ = value.get_string();
  if (previous_.empty()) return refuse("must not be empty");
  return {};
}

result<void> response_fields::take_conversation(value_ref) {
  if (limits_.shelf) return refuse("is not supported: go on from a response with 'previous_response_id'");
  return refuse("is not supported: this worker stores no responses, send the whole conversation as 'input'");
}

result<void> response_fields::take_unsupported(value_ref) {
  return refuse("is not supported");
}

}  // namespace orcd::net
