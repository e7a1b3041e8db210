#include "net/anthropic/messages_request.hpp"

#include <array>
#include <utility>

#include "net/anthropic/conversation.hpp"
#include "net/anthropic/messages_fields.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"

namespace orcd::net {

using engine::result;

const messages_fields::rule* messages_fields::find_rule(std::string_view name) noexcept {
  using f = messages_fields;
  static constexpr std::array rules{
      rule{"model", &f::take_as_chat},
      rule{"messages", &f::take_messages},
      rule{"system", &f::take_system},
      rule{"max_tokens", &f::take_max_tokens},
      rule{"stop_sequences", &f::take_stops},
      rule{"stream", &f::take_as_chat},
      rule{"temperature", &f::take_temperature},
      rule{"top_p", &f::take_as_chat},
      rule{"tools", &f::take_tools},
      rule{"tool_choice", &f::take_tool_choice},
      rule{"thinking", &f::take_thinking},
      rule{"output_config", &f::take_output_config},
      rule{"output_format", &f::take_format},
      rule{"context_management", &f::take_context_management},
      // What cannot change the answer.
      rule{"billing_policy", &f::take_object},
      rule{"cache_control", &f::take_object},
      rule{"diagnostics", &f::take_object},
      rule{"metadata", &f::take_object},
      rule{"inference_geo", &f::take_label},
      rule{"service_tier", &f::take_label},
      rule{"speed", &f::take_label},
      rule{"user_profile_id", &f::take_label},
      rule{"workspace_id", &f::take_label},
      // What would, and is not served.
      rule{"container", &f::take_only_empty},
      rule{"mcp_servers", &f::take_only_empty},
      rule{"thread", &f::take_only_empty},
  };
  return find_named(rules, name);
}

result<void> messages_fields::take(std::string_view name, value_ref value) {
  if (is_worker_field(name)) return chat_.take(name, value);
  const rule* const known = find_rule(name);
  if (value.is_null() && !strict_fields_) return {};
  if (known == nullptr) return unknown_field(name);
  if (value.is_null()) return {};
  field_ = name;
  return value.is_double() ? (this->*known->take)(without_fraction(value)) : (this->*known->take)(value);
}

result<completion_request> messages_fields::finish() && {
  if (messages_.is_null()) return refuse_field("messages", "is missing");
  if (use_ == messages_use::answer && !has_max_tokens_) return refuse_field("max_tokens", "is missing");
  const auto conversation =
      read_conversation(system_, messages_, strict_fields_ ? nullptr : &left_, chat_.media.get());
  if (!conversation) return conversation.error();
  if (const auto taken = chat_.take("messages", *conversation); !taken) return taken.error();
  auto request = std::move(chat_).finish();
  if (!request) return in_words_of_messages(request.error());
  if (const auto begun = take_beginning(*request); !begun) return begun.error();
  if (!format_field_.empty()) request->constraints.field = format_field_;
  request->stop = std::move(stops_);
  request->left_out = std::move(left_);
  // Without the field there is no thinking. Templates that can leave it out read one of two names.
  hints_["enable_thinking"] = thinks_;
  hints_["thinking"] = thinks_;
  request->template_hints = std::move(hints_);
  request->omit_reasoning = hides_thoughts_;
  if (budget_) request->reasoning_tokens_max = budget_;
  request->count_only = use_ == messages_use::count;
  return request;
}

/// An assistant's last message is the beginning of the answer.
result<void> messages_fields::take_beginning(completion_request& request) const {
  namespace json = boost::json;
  const auto& last = request.messages.back().as_object();
  if (last.at("role") != json::value("assistant")) return {};
  // In the words of the API itself, which its clients know.
  const auto refuse_last = [](const std::string& why) {
    return engine::error(engine::errc::invalid_request, "messages: " + why, "messages");
  };
  if (last.contains("tool_calls")) {
    return refuse_last("`tool_use` ids were found without `tool_result` blocks immediately after");
  }
  if (!format_field_.empty()) {
    return refuse_last("a final assistant message cannot be beside '" + format_field_ +
                       "': the answer would hold the rest of a value alone");
  }
  const auto* content = last.if_contains("content");
  const std::string_view text = content != nullptr && content->is_string()
                                    ? std::string_view(content->get_string())
                                    : std::string_view();
  if (!text.empty() && std::string_view(" \t\n\v\f\r").find(text.back()) != std::string_view::npos) {
    return refuse_last("final assistant content cannot end with trailing whitespace");
  }
  request.shape.continues = true;
  return {};
}

engine::error in_words_of_messages(engine::error refusal) {
  refusal = rename_field(std::move(refusal), "continue_final_message", "messages");
  const bool unnamed = refusal.message.find(refusal.param) == std::string::npos;
  if (refusal.code == engine::errc::invalid_request && unnamed) {
    refusal.message.insert(0, refusal.param + ": ");
  }
  return refusal;
}

result<completion_request> parse_messages(std::string_view body, const completion_limits& limits) {
  return read_fields(body, messages_fields(messages_use::answer, limits));
}

result<completion_request> parse_count_tokens(std::string_view body, const completion_limits& limits) {
  return read_fields(body, messages_fields(messages_use::count, limits));
}

}  // namespace orcd::net
