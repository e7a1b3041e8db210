#include "net/chat_messages.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "net/completion_request.hpp"
#include "net/field_checks.hpp"
#include "net/json_value.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::error;
using engine::result;

constexpr std::array<std::string_view, 5> roles = {"system", "developer", "user", "assistant", "tool"};

std::string element(const std::string& list, std::size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

error wrong_kind(const std::string& place, std::string_view must, const json::value& value) {
  return refuse_field(place, "must be " + std::string(must) + ", it is " + std::string(kind_name(value)));
}

/// The member of an object, unless it is absent or null.
const json::value* member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

/// Refuses members that are not in the list; null is nothing.
template <std::size_t N>
result<void> only(const json::object& object, const std::string& place,
                  const std::array<std::string_view, N>& known) {
  for (const auto& field : object) {
    if (field.value().is_null() || std::find(known.begin(), known.end(), field.key()) != known.end())
      continue;
    const std::string name = place + "." + shown_name(field.key());
    return refuse_field(name, "is not supported");
  }
  return {};
}

result<std::string> read_text(const json::object& object, const std::string& place, std::string_view name) {
  const auto* value = member(object, name);
  const std::string where = place + "." + std::string(name);
  if (value == nullptr) return refuse_field(where, "is missing");
  if (!value->is_string()) return wrong_kind(where, "a string", *value);
  return std::string(value->get_string());
}

result<std::string> read_parts(const json::array& parts, const std::string& place) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string where = element(place, i);
    const auto* part = parts[i].if_object();
    if (part == nullptr) return wrong_kind(where, "an object", parts[i]);
    const auto type = read_text(*part, where, "type");
    if (!type) return type.error();
    if (*type != "text") {
      return refuse_field(where + ".type", "must be 'text', it is '" + shown_name(*type) + "'");
    }
    constexpr std::array<std::string_view, 2> known = {"type", "text"};
    if (const auto ok = only(*part, where, known); !ok) return ok.error();
    const auto piece = read_text(*part, where, "text");
    if (!piece) return piece.error();
    if (i > 0) text += '\n';
    text += *piece;
  }
  return text;
}

/// The content of a message; null where there is none.
result<json::value> read_content(const json::object& message, const std::string& place) {
  const auto* content = member(message, "content");
  if (content == nullptr) return json::value(nullptr);
  const std::string where = place + ".content";
  if (content->is_string()) return *content;
  if (!content->is_array()) return wrong_kind(where, "a string or an array of parts", *content);
  auto text = read_parts(content->get_array(), where);
  if (!text) return text.error();
  return json::value(*text);
}

result<json::object> read_arguments(const json::object& function, const std::string& place) {
  const auto* value = member(function, "arguments");
  const std::string where = place + ".arguments";
  if (value == nullptr) return refuse_field(where, "is missing");
  if (value->is_object()) return value->get_object();
  if (!value->is_string()) return wrong_kind(where, "a JSON object as a string", *value);
  auto tree = read_json_tree(value->get_string());
  if (!tree) return refuse_field(where, "must be a JSON object as a string: " + tree.error().message);
  return std::move(*tree);
}

result<json::object> read_tool_call(const json::value& value, const std::string& place) {
  const auto* call = value.if_object();
  if (call == nullptr) return wrong_kind(place, "an object", value);
  constexpr std::array<std::string_view, 4> known = {"id", "type", "function", "index"};
  if (const auto ok = only(*call, place, known); !ok) return ok.error();
  const auto id = read_text(*call, place, "id");
  if (!id) return id.error();
  if (const auto* type = member(*call, "type"); type != nullptr && *type != json::value("function")) {
    return refuse_field(place + ".type", "must be 'function'");
  }
  const auto* function = member(*call, "function");
  if (function == nullptr) return refuse_field(place + ".function", "is missing");
  const std::string where = place + ".function";
  if (!function->is_object()) return wrong_kind(where, "an object", *function);
  constexpr std::array<std::string_view, 2> parts = {"name", "arguments"};
  if (const auto ok = only(function->get_object(), where, parts); !ok) return ok.error();
  const auto name = read_text(function->get_object(), where, "name");
  if (!name) return name.error();
  auto arguments = read_arguments(function->get_object(), where);
  if (!arguments) return arguments.error();
  json::object called{{"name", *name}, {"arguments", std::move(*arguments)}};
  return json::object{{"id", *id}, {"type", "function"}, {"function", std::move(called)}};
}

result<void> read_tool_calls(const json::value& value, const std::string& place, json::object& out) {
  const std::string where = place + ".tool_calls";
  if (!value.is_array()) return wrong_kind(where, "an array", value);
  json::array calls;
  for (const auto& call : value.get_array()) {
    auto read = read_tool_call(call, element(where, calls.size()));
    if (!read) return read.error();
    calls.push_back(std::move(*read));
  }
  if (!calls.empty()) out["tool_calls"] = std::move(calls);
  return {};
}

/// What an assistant's message may have beside its content. Templates know its thoughts by either name.
result<void> read_assistant(const json::object& message, const std::string& place, json::object& out) {
  if (const auto* calls = member(message, "tool_calls")) {
    if (const auto ok = read_tool_calls(*calls, place, out); !ok) return ok;
  }
  if (member(message, "reasoning_content") != nullptr) {
    const auto thoughts = read_text(message, place, "reasoning_content");
    if (!thoughts) return thoughts.error();
    out["reasoning_content"] = *thoughts;
    out["thinking"] = *thoughts;
  }
  if (const auto* notes = member(message, "annotations")) {
    if (!notes->is_array() || !notes->get_array().empty()) {
      return refuse_field(place + ".annotations", "must be empty");
    }
  }
  if (out.at("content").is_null() && !out.contains("tool_calls")) {
    return refuse_field(place + ".content", "is missing");
  }
  return {};
}

result<json::object> read_message(const json::value& value, const std::string& place) {
  const auto* message = value.if_object();
  if (message == nullptr) return wrong_kind(place, "an object", value);
  auto role = read_text(*message, place, "role");
  if (!role) return role.error();
  if (std::find(roles.begin(), roles.end(), *role) == roles.end()) {
    return refuse_field(place + ".role", "must be system, developer, user, assistant or tool, it is '" +
                                             shown_name(*role) + "'");
  }
  const bool assistant = *role == "assistant";
  const bool tool = *role == "tool";
  constexpr std::array<std::string_view, 3> plain = {"role", "content", "name"};
  constexpr std::array<std::string_view, 4> of_tools = {"role", "content", "name", "tool_call_id"};
  constexpr std::array<std::string_view, 6> of_assistants = {
      "role", "content", "name", "tool_calls", "reasoning_content", "annotations"};
  const auto ok = assistant ? only(*message, place, of_assistants)
                  : tool    ? only(*message, place, of_tools)
                            : only(*message, place, plain);
  if (!ok) return ok.error();
  auto content = read_content(*message, place);
  if (!content) return content.error();
  if (content->is_null() && !assistant) return refuse_field(place + ".content", "is missing");
  json::object out{{"role", *role == "developer" ? "system" : *role}, {"content", std::move(*content)}};
  if (member(*message, "name") != nullptr) {
    const auto name = read_text(*message, place, "name");
    if (!name) return name.error();
    out["name"] = *name;
  }
  if (tool) {
    const auto id = read_text(*message, place, "tool_call_id");
    if (!id) return id.error();
    out["tool_call_id"] = *id;
  }
  if (assistant) {
    if (const auto read = read_assistant(*message, place, out); !read) return read.error();
  }
  return out;
}

}  // namespace

result<json::array> read_messages(const json::value& value) {
  const std::string name = "messages";
  if (!value.is_array()) return wrong_kind(name, "an array", value);
  const auto& messages = value.get_array();
  if (messages.empty()) return refuse_field(name, "must not be empty");
  if (messages.size() > messages_max) {
    return refuse_field(name, "may have " + std::to_string(messages_max) + " messages, it has " +
                                  std::to_string(messages.size()));
  }
  json::array out;
  out.reserve(messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    auto message = read_message(messages[i], element(name, i));
    if (!message) return message.error();
    out.push_back(std::move(*message));
  }
  return out;
}

}  // namespace orcd::net
