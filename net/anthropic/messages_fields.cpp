#include "net/anthropic/messages_fields.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "net/anthropic/conversation.hpp"
#include "net/anthropic/offered_tools.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

constexpr std::size_t stop_sequences_max = 64;
constexpr std::uint64_t budget_tokens_max = 1U << 30U;

/// What the API has 0 to 1 for; the worker itself takes more.
constexpr real_range messages_temperature_range{0.0, 1.0};

}  // namespace

result<void> messages_fields::take_as_chat(value_ref value) {
  return chat_.take(field_, value);
}

result<void> messages_fields::take_max_tokens(value_ref value) {
  has_max_tokens_ = true;
  // A chat takes it for no limit; this API has no such thing.
  if (value == boost::json::value(-1)) return refuse_field(field_, "must be at least 1, it is -1");
  return chat_.take(field_, value);
}

result<void> messages_fields::take_temperature(value_ref value) {
  if (const auto fits = as_real(field_, value, messages_temperature_range); !fits) return fits.error();
  return chat_.take(field_, value);
}

result<void> messages_fields::take_stops(value_ref value) {
  if (!value.is_array()) return refuse_kind(field_, "an array of strings", value);
  for (const auto& stop : value.get_array()) {
    if (!stop.is_string()) return refuse_kind(field_, "an array of strings", stop);
    const auto added = add_stop(field_, std::string(stop.get_string()), stop_sequences_max, stops_);
    if (!added) return added;
  }
  return {};
}

result<void> messages_fields::take_system(value_ref value) {
  system_ = value;
  return {};
}

result<void> messages_fields::take_messages(value_ref value) {
  messages_ = value;
  return {};
}

result<void> messages_fields::take_tools(value_ref value) {
  const auto tools = read_offered_tools(value, left_);
  if (!tools) return tools.error();
  return chat_.take("tools", *tools);
}

result<void> messages_fields::take_tool_choice(value_ref value) {
  const auto chosen = read_chosen_tools(value);
  if (!chosen) return chosen.error();
  if (const auto taken = chat_.take("tool_choice", chosen->choice); !taken) return taken;
  return chat_.take("parallel_tool_calls", chosen->parallel);
}

result<void> messages_fields::take_thinking(value_ref value) {
  const auto* thinking = value.if_object();
  if (thinking == nullptr) return refuse_kind(field_, "an object", value);
  constexpr std::array<std::string_view, 3> known = {"type", "budget_tokens", "display"};
  if (const auto ok = only_members(*thinking, field_, known); !ok) return ok;
  const auto type = text_member(*thinking, field_, "type");
  if (!type) return type.error();
  if (*type != "enabled" && *type != "adaptive" && *type != "disabled") {
    return refuse_word("thinking.type", "'enabled', 'adaptive' or 'disabled'", *type);
  }
  thinks_ = *type != "disabled";
  if (const auto* budget = find_member(*thinking, "budget_tokens")) {
    const auto tokens = as_integer("thinking.budget_tokens", *budget, 1, budget_tokens_max);
    if (!tokens) return tokens.error();
    hints_["thinking_budget"] = *tokens;
    budget_ = static_cast<std::uint32_t>(*tokens);
  }
  if (find_member(*thinking, "display") == nullptr) return {};
  const auto display = text_member(*thinking, field_, "display");
  if (!display) return display.error();
  if (*display != "summarized" && *display != "omitted") {
    return refuse_word("thinking.display", "'summarized' or 'omitted'", *display);
  }
  hides_thoughts_ = *display == "omitted";
  return {};
}

result<void> messages_fields::take_output_config(value_ref value) {
  const auto* config = value.if_object();
  if (config == nullptr) return refuse_kind(field_, "an object", value);
  constexpr std::array<std::string_view, 2> known = {"effort", "format"};
  if (const auto ok = only_members(*config, field_, known); !ok) return ok;
  if (find_member(*config, "effort") != nullptr) {
    const auto effort = text_member(*config, field_, "effort");
    if (!effort) return effort.error();
    if (const auto taken = take_effort(*effort); !taken) return taken;
  }
  const auto* format = find_member(*config, "format");
  if (format == nullptr) return {};
  field_ = "output_config.format";
  return take_format(*format);
}

/// Templates know three efforts.
result<void> messages_fields::take_effort(std::string_view effort) {
  constexpr std::array<std::string_view, 5> efforts = {"low", "medium", "high", "xhigh", "max"};
  const auto* const found = std::find(efforts.begin(), efforts.end(), effort);
  if (found == efforts.end()) {
    return refuse_word("output_config.effort", "'low', 'medium', 'high', 'xhigh' or 'max'", effort);
  }
  hints_["reasoning_effort"] =
      efforts[std::min<std::size_t>(2, static_cast<std::size_t>(found - efforts.begin()))];
  return {};
}

result<void> messages_fields::take_format(value_ref value) {
  const auto* format = value.if_object();
  if (format == nullptr) return refuse_kind(field_, "an object", value);
  constexpr std::array<std::string_view, 2> known = {"type", "schema"};
  if (const auto ok = only_members(*format, field_, known); !ok) return ok;
  const auto type = text_member(*format, field_, "type");
  if (!type) return type.error();
  if (*type != "json_schema") {
    return refuse_word(field_ + ".type", "'json_schema'", *type);
  }
  const auto schema = object_member(*format, field_, "schema");
  if (!schema) return schema.error();
  json::object described{{"name", "answer"}, {"schema", **schema}};
  format_field_ = field_;
  return chat_.take("response_format",
                    json::object{{"type", "json_schema"}, {"json_schema", std::move(described)}});
}

/// The strategies by which the API's own servers shorten a conversation. Keeping all thoughts is what happens
/// here anyway.
result<void> messages_fields::take_context_management(value_ref value) {
  const auto* management = value.if_object();
  if (management == nullptr) return refuse_kind(field_, "an object", value);
  constexpr std::array<std::string_view, 1> known = {"edits"};
  if (const auto ok = only_members(*management, field_, known); !ok) return ok;
  const auto* edits = find_member(*management, "edits");
  if (edits == nullptr) return {};
  if (!edits->is_array()) return refuse_kind("context_management.edits", "an array", *edits);
  for (const auto& edit : edits->get_array()) {
    const auto* strategy = edit.if_object();
    if (strategy == nullptr) return refuse_kind("context_management.edits", "an array of objects", edit);
    const auto* keep = find_member(*strategy, "keep");
    if (keep != nullptr && *keep == json::value("all")) continue;
    return refuse("shortens the conversation, which this worker does not: only edits with 'keep': 'all'");
  }
  return {};
}

result<void> messages_fields::take_object(value_ref value) {
  if (!value.is_object()) return refuse_kind(field_, "an object", value);
  return {};
}

result<void> messages_fields::take_label(value_ref value) {
  const auto label = as_text(field_, value);
  return label ? result<void>() : label.error();
}

result<void> messages_fields::take_only_empty(value_ref value) {
  if (value.is_array() && value.get_array().empty()) return {};
  return refuse("is not supported: this worker has no such thing");
}

}  // namespace orcd::net
