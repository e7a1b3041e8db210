#include <array>
#include <boost/json/serialize.hpp>
#include <utility>

#include "net/completion/sent_media.hpp"
#include "net/json/json_text.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/responses/input_items.hpp"
#include "net/responses/response_fields.hpp"
#include "net/responses/whole_items.hpp"

namespace orcd::net {

namespace json = boost::json;
using engine::error;
using engine::result;

const response_fields::rule* response_fields::find_rule(std::string_view name) noexcept {
  using f = response_fields;
  static constexpr std::array rules{
      rule{"model", &f::take_as_chat},
      rule{"input", &f::take_input},
      rule{"instructions", &f::take_instructions, true},
      rule{"max_output_tokens", &f::take_max_tokens, true},
      rule{"temperature", &f::take_as_chat, true},
      rule{"top_p", &f::take_as_chat, true},
      rule{"stream", &f::take_as_chat},
      rule{"stream_options", &f::take_stream_options},
      rule{"tools", &f::take_tools},
      rule{"tool_choice", &f::take_tool_choice, true},
      rule{"parallel_tool_calls", &f::take_as_chat, true},
      rule{"text", &f::take_text, true},
      rule{"reasoning", &f::take_reasoning, true},
      rule{"include", &f::take_include},
      rule{"top_logprobs", &f::take_top_logprobs, true},
      // Of a chat; is_worker_field() has more.
      rule{"chat_template", &f::take_as_chat},
      rule{"enable_thinking", &f::take_as_chat},
      rule{"timings_per_token", &f::take_timings},
      // These cannot change the answer.
      rule{"metadata", &f::take_metadata, true},
      rule{"user", &f::take_label, true},
      rule{"safety_identifier", &f::take_label, true},
      rule{"prompt_cache_key", &f::take_label, true},
      rule{"prompt_cache_retention", &f::take_label, true},
      rule{"prompt_cache_options", &f::take_object},
      rule{"client_metadata", &f::take_object},
      rule{"access_programs", &f::take_object},
      rule{"service_tier", &f::take_label},
      rule{"max_tool_calls", &f::take_count, true},
      // One value of these is what this worker does.
      rule{"store", &f::take_store},
      rule{"background", &f::take_only_false},
      rule{"truncation", &f::take_truncation},
      rule{"previous_response_id", &f::take_previous, true},
      rule{"conversation", &f::take_conversation},
      rule{"prompt", &f::take_unsupported},
      rule{"context_management", &f::take_unsupported},
      rule{"moderation", &f::take_unsupported},
  };
  return find_named(rules, name);
}

result<void> response_fields::take(std::string_view name, value_ref value) {
  if (is_worker_field(name)) return chat_.take(name, value);
  if (value.is_null() && !limits_.strict_fields) return {};
  const rule* const known = find_rule(name);
  if (known == nullptr) return unknown_field(name);
  if (value.is_null()) return {};
  field_ = name;
  if (known->told) told_.insert_or_assign(name, value);
  return value.is_double() ? (this->*known->take)(without_fraction(value)) : (this->*known->take)(value);
}

/// The members of the answer that repeat the request, without braces: those that the API promises are there
/// with what holds where the request says nothing.
std::string response_fields::echo() const {
  struct repeated {
    std::string_view name;
    std::string_view absent;  ///< as JSON
  };
  std::string temperature, top_p;
  append_decimal(temperature, limits_.lengths.sampling.temperature, 6);
  append_decimal(top_p, limits_.lengths.sampling.top_p, 6);
  const std::array<repeated, 16> members{{{"instructions", "null"},
                                          {"max_output_tokens", "null"},
                                          {"max_tool_calls", "null"},
                                          {"metadata", "{}"},
                                          {"parallel_tool_calls", "true"},
                                          {"previous_response_id", "null"},
                                          {"prompt_cache_key", "null"},
                                          {"prompt_cache_retention", "null"},
                                          {"reasoning", R"({"effort":null,"summary":null})"},
                                          {"safety_identifier", "null"},
                                          {"temperature", temperature},
                                          {"text", R"({"format":{"type":"text"}})"},
                                          {"tool_choice", "\"auto\""},
                                          {"top_logprobs", "0"},
                                          {"top_p", top_p},
                                          {"user", "null"}}};
  std::string out = R"("background":false,"service_tier":"default","truncation":"disabled","store":)";
  out += stores_ ? "true" : "false";
  for (const auto& member : members) {
    out += ",\"" + std::string(member.name) + "\":";
    const auto* value = told_.if_contains(member.name);
    out += value == nullptr ? std::string(member.absent) : json::serialize(*value);
  }
  return out + ",\"tools\":" + json::serialize(told_tools_);
}

result<kept_turns> response_fields::recall() const {
  if (previous_.empty()) return kept_turns();
  const auto found = limits_.shelf->find(previous_);
  if (found) return found->turns;
  return error(engine::errc::not_found,
               "Previous response with id '" + shown_name(previous_) + "' not found.",
               "previous_response_id");
}

std::shared_ptr<const response_notes> response_fields::make_notes(tool_names names,
                                                                  kept_turns earlier) const {
  auto notes = std::make_shared<response_notes>();
  notes->names = std::move(names);
  notes->seals_reasoning = seals_reasoning_;
  notes->logprobs = logprobs_;
  notes->timings = timings_;
  if (!stores_) return notes;
  notes->shelf = limits_.shelf;
  notes->earlier = std::move(earlier);
  notes->input = std::make_shared<const kept_items>(whole_items(input_));
  return notes;
}

result<completion_request> response_fields::finish() && {
  if (input_.is_null()) return refuse_field("input", "is missing");
  auto earlier = recall();
  if (!earlier) return earlier.error();
  if (text_bytes(*earlier) > limits_.recalled_bytes_max) {
    completion_request left;
    left.unread = true;
    return left;
  }
  left_names left;
  auto messages =
      read_input(instructions_, *earlier, input_, limits_.strict_fields ? nullptr : &left, chat_.media.get());
  if (!messages) return messages.error();
  if (stores_ && chat_.media && !chat_.media->all().empty())
    return refuse_field("store", "must be false for a request with pictures: none are kept");
  if (const auto taken = chat_.take("messages", *messages); !taken) return taken.error();
  response_tools offered;
  if (!tools_.is_null()) {
    auto read = read_response_tools(tools_);
    if (!read) return read.error();
    offered = std::move(*read);
  }
  told_tools_ = std::move(offered.told);
  for (const std::string& type : offered.left_types) note_left(left, "tool", type);
  if (!tool_choice_.is_null()) {
    const auto choice = read_response_choice(tool_choice_, offered);
    if (!choice) return choice.error();
    if (const auto taken = chat_.take("tool_choice", *choice); !taken) return taken.error();
  }
  if (!offered.functions.empty()) {
    if (const auto taken = chat_.take("tools", offered.functions); !taken) return taken.error();
  }
  if (logprobs_) {
    if (const auto taken = chat_.take("logprobs", true); !taken) return taken.error();
    if (const auto taken = chat_.take("top_logprobs", top_logprobs_); !taken) return taken.error();
  }
  auto request = std::move(chat_).finish();
  if (!request) {
    // The place of a function in the request, not among those that the model can call.
    error refusal = request.error();
    for (std::size_t i = 0; i < offered.paths.size(); ++i) {
      const std::string place = element_path("tools", i) + ".function";
      if (refusal.param.starts_with(place)) return rename_field(std::move(refusal), place, offered.paths[i]);
    }
    return refusal;
  }
  request->max_tokens_field = "max_output_tokens";
  request->constraints.field = "text.format";
  request->template_hints = std::move(hints_);
  request->notes = make_notes(std::move(offered.names), std::move(*earlier));
  request->left_out = std::move(left);
  request->echo = echo();
  return request;
}

error in_words_of_responses(error refusal) {
  // A field of a chat that this API does not have, in its own name.
  if (refusal.message.starts_with("unknown field")) return refusal;
  struct renamed {
    std::string_view chat;
    std::string_view here;
  };
  constexpr std::array<renamed, 5> names{{{"messages", "input"},
                                          {"response_format.json_schema", "text.format"},
                                          {"response_format", "text.format"},
                                          {"max_completion_tokens", "max_output_tokens"},
                                          {"reasoning_effort", "reasoning.effort"}}};
  for (const auto& name : names) {
    if (refusal.param.starts_with(name.chat)) return rename_field(std::move(refusal), name.chat, name.here);
  }
  return refusal;
}

result<completion_request> parse_response(std::string_view body, const completion_limits& limits) {
  response_fields fields(limits);
  const auto read = read_body(
      body, [&fields](std::string_view name, const json::value& value) { return fields.take(name, value); });
  if (!read) return read.error();
  auto request = std::move(fields).finish();
  if (!request) return in_words_of_responses(request.error());
  return request;
}

}  // namespace orcd::net
