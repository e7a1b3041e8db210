#include "net/anthropic/offered_tools.hpp"

#include <array>
#include <boost/json/object.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "net/completion/output_constraints.hpp"
#include "net/json/json_value.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// Members that say how a tool is to be served and have one value that changes nothing here.
result<void> check_serving(const json::object& tool, const std::string& path) {
  const auto later = flag_member(tool, path, "defer_loading");
  if (!later) return later.error();
  if (*later) return refuse_field(path + ".defer_loading", "must be false: this worker has no tool search");
  if (const auto* callers = find_member(tool, "allowed_callers");
      callers != nullptr && *callers != json::value(json::array{"direct"})) {
    return refuse_field(path + ".allowed_callers", "must be [\"direct\"]");
  }
  const auto eager = flag_member(tool, path, "eager_input_streaming");
  if (!eager) return eager.error();
  return {};
}

result<json::value> read_tool(const json::value& value, const std::string& path,
                              std::set<std::string>& taken) {
  const auto* tool = value.if_object();
  if (tool == nullptr) return refuse_kind(path, "an object", value);
  if (const auto* type = find_member(*tool, "type"); type != nullptr && *type != json::value("custom")) {
    const std::string shown = type->is_string() ? shown_name(type->get_string()) : "no string";
    return refuse_field(path + ".type", "must be 'custom', it is '" + shown +
                                            "': this worker has no tools of its own, only those with an "
                                            "input_schema");
  }
  constexpr std::array<std::string_view, 9> known = {
      "type",   "name",          "description",     "input_schema",         "cache_control",
      "strict", "defer_loading", "allowed_callers", "eager_input_streaming"};
  if (const auto ok = only_members(*tool, path, known); !ok) return ok.error();
  const auto name = function_name(*tool, path);
  if (!name) return name.error();
  if (!taken.emplace(*name).second) {
    return refuse_field(path + ".name", "is '" + std::string(*name) + "', which is there already");
  }
  const auto schema = object_member(*tool, path, "input_schema");
  if (!schema) return schema.error();
  if (const auto ok = check_serving(*tool, path); !ok) return ok.error();
  json::object function{{"name", *name}};
  const auto description = optional_text_member(*tool, path, "description");
  if (!description) return description.error();
  if (find_member(*tool, "description") != nullptr) function["description"] = *description;
  function["parameters"] = **schema;
  const auto strict = flag_member(*tool, path, "strict");
  if (!strict) return strict.error();
  if (*strict) function["strict"] = true;
  return json::value(json::object{{"type", "function"}, {"function", std::move(function)}});
}

/// The type of a tool by which the API's own servers search or fetch; empty where it is none.
std::string_view search_in(const json::value& value) {
  const auto* tool = value.if_object();
  const auto* type = tool == nullptr ? nullptr : find_member(*tool, "type");
  if (type == nullptr || !type->is_string()) return {};
  const std::string_view name = type->get_string();
  return name.starts_with("web_search_") || name.starts_with("web_fetch_") ? name : std::string_view();
}

}  // namespace

result<json::array> read_offered_tools(const json::value& tools, left_names& left) {
  if (!tools.is_array()) return refuse_kind("tools", "an array", tools);
  json::array out;
  std::set<std::string> taken;
  const auto& list = tools.get_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (const auto search = search_in(list[i]); !search.empty()) {
      note_left(left, "tool", search);
      continue;
    }
    auto read = read_tool(list[i], element_path("tools", i), taken);
    if (!read) return read.error();
    out.push_back(std::move(*read));
  }
  return out;
}

result<chosen_tools> read_chosen_tools(const json::value& value) {
  const std::string path = "tool_choice";
  const auto* choice = value.if_object();
  if (choice == nullptr) return refuse_kind(path, "an object", value);
  constexpr std::array<std::string_view, 3> known = {"type", "name", "disable_parallel_tool_use"};
  if (const auto ok = only_members(*choice, path, known); !ok) return ok.error();
  const auto type = text_member(*choice, path, "type");
  if (!type) return type.error();
  const auto single = flag_member(*choice, path, "disable_parallel_tool_use");
  if (!single) return single.error();
  chosen_tools out;
  out.parallel = !*single;
  if (*type == "tool") {
    const auto name = text_member(*choice, path, "name");
    if (!name) return name.error();
    out.choice = json::object{{"type", "function"}, {"function", json::object{{"name", *name}}}};
    return out;
  }
  if (find_member(*choice, "name") != nullptr) return refuse_field(path + ".name", "needs 'type': 'tool'");
  if (*type == "auto" || *type == "none") {
    out.choice = json::value(*type);
  } else if (*type == "any") {
    out.choice = "required";
  } else {
    return refuse_word(path + ".type", "'auto', 'any', 'tool' or 'none'", *type);
  }
  return out;
}

}  // namespace orcd::net
