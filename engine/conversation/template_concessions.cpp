#include "engine/conversation/template_concessions.hpp"

#include <array>
#include <boost/json/array.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace orcd::engine {
namespace {

namespace json = boost::json;

/// Templates that loop over tools without asking whether there are any cannot loop over none, and can over
/// what is not there.
bool leave_tools_undefined(json::object& variables) {
  const auto* const tools = variables.if_contains("tools");
  if (tools == nullptr || !tools->is_null()) return false;
  variables.erase("tools");
  return true;
}

/// Models without a system role: its text stands in front of the first user message.
bool move_system_text(json::object& variables) {
  json::array& messages = variables.at("messages").as_array();
  if (messages.size() < 2) return false;
  json::object& first = messages[0].as_object();
  json::object& second = messages[1].as_object();
  const bool fits = first.at("role") == json::value("system") && second.at("role") == json::value("user");
  if (!fits || !first.at("content").is_string() || !second.at("content").is_string()) return false;
  std::string text(first.at("content").get_string());
  text += '\n';
  text += second.at("content").get_string();
  second["content"] = text;
  messages.erase(messages.begin());
  return true;
}

bool says(const json::object& message, std::string_view role) {
  return message.at("role") == json::value(role);
}

/// gpt-oss's template takes reasoning or content before a call, and not both: the content follows the
/// reasoning, from which the call follows.
bool join_preambles(json::object& variables) {
  bool changed = false;
  for (json::value& value : variables.at("messages").as_array()) {
    json::object& message = value.as_object();
    auto* const thinking = message.if_contains("thinking");
    if (thinking == nullptr || !thinking->is_string() || !message.contains("tool_calls")) continue;
    json::value& content = message.at("content");
    if (!content.is_string() || content.get_string().empty()) continue;
    std::string both(thinking->get_string());
    both += both.empty() ? "" : "\n\n";
    both += content.get_string();
    *thinking = both;
    content = "";
    changed = true;
  }
  return changed;
}

/// Whether a message is text alone, to which another may be joined.
bool is_plain(const json::object& message, std::string_view role) {
  return says(message, role) && message.at("content").is_string() && !message.contains("tool_calls");
}

/// Templates that want user and assistant in turns, each with something to say: an answer that was cut before
/// it began, one that never came, or one that the user did not wait for. What follows one another is joined;
/// a turn without text is a space.
bool alternate(json::object& variables) {
  bool changed = false;
  json::array out;
  for (json::value& value : variables.at("messages").as_array()) {
    json::object& message = value.as_object();
    if (is_plain(message, "assistant") && message.at("content").as_string().empty()) {
      message["content"] = " ";
      changed = true;
    }
    json::object* const last = out.empty() ? nullptr : &out.back().as_object();
    for (const std::string_view role : {"user", "assistant"}) {
      if (last == nullptr || !is_plain(*last, role) || !is_plain(message, role)) continue;
      std::string joined(last->at("content").as_string());
      joined += "\n\n";
      joined += message.at("content").as_string();
      last->at("content") = joined;
      value = nullptr;
      break;
    }
    changed = changed || value.is_null();
    if (value.is_null()) continue;
    if (last != nullptr && says(*last, "tool") && says(message, "user")) {
      out.push_back(json::object{{"role", "assistant"}, {"content", " "}});
      changed = true;
    }
    out.push_back(std::move(value));
  }
  variables["messages"] = std::move(out);
  return changed;
}

constexpr std::array<template_concession, 4> concessions{leave_tools_undefined, move_system_text,
                                                         join_preambles, alternate};

}  // namespace

std::span<const template_concession> template_concessions() noexcept {
  return concessions;
}

bool concede_system_role(boost::json::object& variables) {
  return move_system_text(variables);
}

}  // namespace orcd::engine
