#include "net/ollama/ollama_messages.hpp"

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "net/json/object_members.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// The name of a member of a message in the other form.
std::string_view known_as(std::string_view name) {
  if (name == "thinking") return "reasoning_content";
  return name == "tool_name" ? "name" : name;
}

/// A past call without what the other form does not have: its number, and what its function does.
json::value read_call(const json::value& value) {
  json::value out = value;
  auto* call = out.if_object();
  auto* function = call == nullptr ? nullptr : call->if_contains("function");
  if (function == nullptr || !function->is_object()) return out;
  function->get_object().erase("index");
  function->get_object().erase("description");
  return out;
}

json::value read_calls(const json::value& value) {
  const auto* calls = value.if_array();
  if (calls == nullptr) return value;
  json::array out;
  out.reserve(calls->size());
  for (const json::value& call : *calls) out.push_back(read_call(call));
  return out;
}

result<json::object> read_message(const json::object& message, const std::string& path) {
  json::object out;
  for (const auto& member : message) {
    const std::string_view name = member.key();
    const json::value& value = member.value();
    if (value.is_null()) continue;
    if (name == "images") {
      if (const auto none = check_no_images(path + ".images", value); !none) return none.error();
    } else if (name == "thinking" && value == json::value("")) {
      continue;
    } else if (name == "tool_calls") {
      out.emplace(name, read_calls(value));
    } else if (!out.emplace(known_as(name), value).second) {
      return refuse_field(path + "." + std::string(name), "is given under two names");
    }
  }
  return out;
}

}  // namespace

result<void> check_no_images(std::string_view path, const json::value& value) {
  if (!value.is_array()) return refuse_kind(path, "an array", value);
  if (value.get_array().empty()) return {};
  return refuse_field(path, "is not supported: the model reads text alone");
}

result<json::array> read_ollama_messages(const json::value& value) {
  const std::string name = "messages";
  const auto* messages = value.if_array();
  if (messages == nullptr) return refuse_kind(name, "an array", value);
  json::array out;
  out.reserve(messages->size());
  for (const json::value& one : *messages) {
    const std::string path = element_path(name, out.size());
    const auto* message = one.if_object();
    if (message == nullptr) return refuse_kind(path, "an object", one);
    auto read = read_message(*message, path);
    if (!read) return read.error();
    out.push_back(std::move(*read));
  }
  return out;
}

json::value read_ollama_tools(const json::value& value) {
  json::value out = value;
  if (!out.is_array()) return out;
  for (json::value& tool : out.get_array()) {
    auto* object = tool.if_object();
    if (object != nullptr && find_member(*object, "type") == nullptr) (*object)["type"] = "function";
  }
  return out;
}

}  // namespace orcd::net
