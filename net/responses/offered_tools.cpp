#include "net/responses/offered_tools.hpp"

#include <array>
#include <boost/json/object.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "net/json/json_value.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

/// Clients list these beside their functions whether they are needed or not.
constexpr std::array<std::string_view, 8> left_out = {
    "web_search", "web_search_preview", "image_generation", "local_shell",
    "shell",      "apply_patch",        "tool_search",      "web_search_2025_08_26"};

/// Where a tool stands, and the namespace that it is in.
struct tool_place {
  std::string path;
  std::string space;
};

void add(response_tools& out, const tool_place& place, std::string_view name, bool custom,
         json::object function) {
  auto flat = flat_name(place.space, name);
  function["name"] = flat;
  out.functions.push_back(json::object{{"type", "function"}, {"function", std::move(function)}});
  out.paths.push_back(place.path);
  out.names.insert_or_assign(std::move(flat), called_tool{std::string(name), place.space, custom});
}

result<void> read_function(const json::object& tool, const tool_place& place, response_tools& out) {
  constexpr std::array<std::string_view, 9> known = {
      "type",          "name",          "description",     "parameters", "strict",
      "defer_loading", "output_schema", "allowed_callers", "async"};
  if (const auto ok = only_members(tool, place.path, known); !ok) return ok;
  const auto name = text_member(tool, place.path, "name");
  if (!name) return name.error();
  const auto description = optional_text_member(tool, place.path, "description");
  if (!description) return description.error();
  const auto strict = flag_member(tool, place.path, "strict");
  if (!strict) return strict.error();
  json::object function;
  if (!description->empty()) function["description"] = *description;
  if (find_member(tool, "parameters") != nullptr) {
    const auto parameters = object_member(tool, place.path, "parameters");
    if (!parameters) return parameters.error();
    function["parameters"] = **parameters;
  }
  if (*strict) function["strict"] = true;
  add(out, place, *name, false, std::move(function));
  return {};
}

/// What the model is told of the form of a custom tool's text; the model has to follow it.
result<std::string> grammar_of(const json::object& tool, const std::string& path) {
  if (find_member(tool, "format") == nullptr) return std::string();
  const auto format = object_member(tool, path, "format");
  if (!format) return format.error();
  const std::string where = path + ".format";
  constexpr std::array<std::string_view, 3> known = {"type", "syntax", "definition"};
  if (const auto ok = only_members(**format, where, known); !ok) return ok.error();
  const auto type = text_member(**format, where, "type");
  if (!type) return type.error();
  if (*type == "text") return std::string();
  if (*type != "grammar") return refuse_field(where + ".type", "must be 'text' or 'grammar'");
  const auto syntax = text_member(**format, where, "syntax");
  if (!syntax) return syntax.error();
  const auto definition = text_member(**format, where, "definition");
  if (!definition) return definition.error();
  return "\n\nThe input has this form (" + std::string(*syntax) + "):\n" + std::string(*definition);
}

result<void> read_custom(const json::object& tool, const tool_place& place, response_tools& out) {
  constexpr std::array<std::string_view, 7> known = {
      "type", "name", "description", "format", "defer_loading", "allowed_callers", "async"};
  if (const auto ok = only_members(tool, place.path, known); !ok) return ok;
  const auto name = text_member(tool, place.path, "name");
  if (!name) return name.error();
  const auto description = optional_text_member(tool, place.path, "description");
  if (!description) return description.error();
  const auto grammar = grammar_of(tool, place.path);
  if (!grammar) return grammar.error();
  json::object input{{"input", json::object{{"type", "string"}}}};
  json::object parameters{{"type", "object"},
                          {"properties", std::move(input)},
                          {"required", json::array{"input"}},
                          {"additionalProperties", false}};
  json::object function{{"description", std::string(*description) + *grammar},
                        {"parameters", std::move(parameters)}};
  add(out, place, *name, true, std::move(function));
  return {};
}

result<bool> read_tool(const json::value& value, const tool_place& place, response_tools& out);

result<void> read_namespace(const json::object& tool, const tool_place& place, response_tools& out) {
  constexpr std::array<std::string_view, 4> known = {"type", "name", "description", "tools"};
  if (const auto ok = only_members(tool, place.path, known); !ok) return ok;
  const auto name = text_member(tool, place.path, "name");
  if (!name) return name.error();
  const std::string where = place.path + ".tools";
  const auto* tools = find_member(tool, "tools");
  if (tools == nullptr) return refuse_field(where, "is missing");
  if (!tools->is_array()) return refuse_kind(where, "an array", *tools);
  const auto& list = tools->get_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto read = read_tool(list[i], {element_path(where, i), std::string(*name)}, out);
    if (!read) return read.error();
  }
  return {};
}

/// Whether the tool is offered.
result<bool> read_tool(const json::value& value, const tool_place& place, response_tools& out) {
  const auto offered = [](const result<void>& read) -> result<bool> {
    if (!read) return read.error();
    return true;
  };
  const auto* tool = value.if_object();
  if (tool == nullptr) return refuse_kind(place.path, "an object", value);
  const auto type = text_member(*tool, place.path, "type");
  if (!type) return type.error();
  if (*type == "function") return offered(read_function(*tool, place, out));
  if (*type == "custom") return offered(read_custom(*tool, place, out));
  if (*type == "namespace" && place.space.empty()) return offered(read_namespace(*tool, place, out));
  if (is_listed(left_out, *type)) {
    out.left_types.emplace_back(*type);
    return false;
  }
  return refuse_field(place.path + ".type", "must be function, custom or namespace, it is '" +
                                                shown_name(*type) + "': this worker has no tools of its own");
}

/// The name, for the model, of a function that a choice names.
result<std::string> named_tool(const json::object& choice, const std::string& path) {
  constexpr std::array<std::string_view, 3> known = {"type", "name", "namespace"};
  if (const auto ok = only_members(choice, path, known); !ok) return ok.error();
  const auto name = text_member(choice, path, "name");
  if (!name) return name.error();
  const auto space = optional_text_member(choice, path, "namespace");
  if (!space) return space.error();
  return flat_name(*space, *name);
}

bool names_function(std::string_view type) {
  return type == "function" || type == "custom";
}

/// Takes from `offered` what is not in the list.
result<void> keep_allowed(const json::object& choice, response_tools& offered) {
  const std::string path = "tool_choice.tools";
  const auto* tools = find_member(choice, "tools");
  if (tools == nullptr) return refuse_field(path, "is missing");
  if (!tools->is_array()) return refuse_kind(path, "an array", *tools);
  std::set<std::string, std::less<>> allowed;
  const auto& list = tools->get_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string where = element_path(path, i);
    const auto* tool = list[i].if_object();
    if (tool == nullptr) return refuse_kind(where, "an object", list[i]);
    const auto type = text_member(*tool, where, "type");
    if (!type) return type.error();
    if (!names_function(*type)) continue;
    auto name = named_tool(*tool, where);
    if (!name) return name.error();
    if (!offered.names.contains(*name)) {
      return refuse_field(where, "names '" + shown_name(*name) + "', which is none of the tools");
    }
    allowed.insert(std::move(*name));
  }
  response_tools kept;
  for (std::size_t i = 0; i < offered.functions.size(); ++i) {
    const auto& name = offered.functions[i].at("function").at("name").as_string();
    if (!allowed.contains(std::string_view(name))) continue;
    kept.functions.push_back(offered.functions[i]);
    kept.paths.push_back(offered.paths[i]);
  }
  offered.functions = std::move(kept.functions);
  offered.paths = std::move(kept.paths);
  return {};
}

}  // namespace

result<response_tools> read_response_tools(const json::value& tools) {
  if (!tools.is_array()) return refuse_kind("tools", "an array", tools);
  response_tools out;
  const auto& list = tools.get_array();
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto offered = read_tool(list[i], {element_path("tools", i), {}}, out);
    if (!offered) return offered.error();
    if (*offered) out.told.push_back(list[i]);
  }
  return out;
}

result<json::value> read_response_choice(const json::value& value, response_tools& offered) {
  const std::string path = "tool_choice";
  if (value.is_string()) return value;
  const auto* choice = value.if_object();
  if (choice == nullptr) return refuse_kind(path, "a string or an object", value);
  const auto type = text_member(*choice, path, "type");
  if (!type) return type.error();
  if (*type == "allowed_tools") {
    constexpr std::array<std::string_view, 3> known = {"type", "mode", "tools"};
    if (const auto ok = only_members(*choice, path, known); !ok) return ok.error();
    const auto mode = text_member(*choice, path, "mode");
    if (!mode) return mode.error();
    if (*mode != "auto" && *mode != "required") {
      return refuse_word(path + ".mode", "'auto' or 'required'", *mode);
    }
    if (const auto kept = keep_allowed(*choice, offered); !kept) return kept.error();
    return json::value(*mode);
  }
  if (!names_function(*type)) {
    return refuse_word(path + ".type", "function, custom or allowed_tools", *type);
  }
  const auto name = named_tool(*choice, path);
  if (!name) return name.error();
  return json::value(json::object{{"type", "function"}, {"function", json::object{{"name", *name}}}});
}

}  // namespace orcd::net
