#include "net/completion/output_constraints.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <functional>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "net/completion/left_fields.hpp"
#include "net/json/json_value.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

using name_set = std::set<std::string, std::less<>>;

constexpr std::array<std::string_view, 2> tool_members = {"type", "function"};
constexpr std::array<std::string_view, 4> function_members = {"name", "description", "parameters", "strict"};

bool has_type(const json::object& object, std::string_view type) {
  const auto* value = find_member(object, "type");
  return value != nullptr && *value == json::value(type);
}

result<void> check_type(const json::object& object, const std::string& path, std::string_view type) {
  if (has_type(object, type)) return {};
  return refuse_field(path + ".type", "must be '" + std::string(type) + "'");
}

bool is_strict(const json::value& tool) {
  const auto* strict = tool.at("function").as_object().if_contains("strict");
  return strict != nullptr && *strict == json::value(true);
}

/// Takes the members out that are not in the list and null or among `left`: a template may print whatever a
/// tool has.
void drop_unused(json::object& object, std::span<const std::string_view> known,
                 std::span<const std::string_view> left) {
  for (auto it = object.begin(); it != object.end();) {
    const bool absent = it->value().is_null() && !is_listed(known, it->key());
    it = absent || is_listed(left, it->key()) ? object.erase(it) : it + 1;
  }
}

void drop_unused(json::value& tool, bool strict_fields) {
  const auto left = [strict_fields](field_place place) {
    return strict_fields ? std::span<const std::string_view>() : left_fields(place);
  };
  auto* object = tool.if_object();
  if (object == nullptr) return;
  drop_unused(*object, tool_members, left(field_place::tool));
  auto* function = object->if_contains("function");
  if (function != nullptr && function->is_object()) {
    drop_unused(function->get_object(), function_members, left(field_place::function));
  }
}

/// One tool; returns its name.
result<std::string_view> check_tool(const json::value& tool, const std::string& path) {
  const auto* object = tool.if_object();
  if (object == nullptr) return refuse_kind(path, "an object", tool);
  if (const auto ok = only_members(*object, path, tool_members); !ok) return ok.error();
  if (const auto ok = check_type(*object, path, "function"); !ok) return ok.error();
  const auto function = object_member(*object, path, "function");
  if (!function) return function.error();
  const std::string where = path + ".function";
  if (const auto ok = only_members(**function, where, function_members); !ok) return ok.error();
  if (const auto ok = optional_text_member(**function, where, "description"); !ok) return ok.error();
  if (const auto ok = flag_member(**function, where, "strict"); !ok) return ok.error();
  if (find_member(**function, "parameters") != nullptr) {
    if (const auto ok = object_member(**function, where, "parameters"); !ok) return ok.error();
  }
  return function_name(**function, where);
}

result<name_set> check_tools(const json::array& tools) {
  if (tools.size() > tools_max) {
    return refuse_field(
        "tools", "may have " + std::to_string(tools_max) + " tools, it has " + std::to_string(tools.size()));
  }
  name_set names;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = element_path("tools", i);
    const auto name = check_tool(tools[i], path);
    if (!name) return name.error();
    if (!names.emplace(*name).second) {
      return refuse_field(path + ".function.name", "is '" + std::string(*name) + "', which is there already");
    }
  }
  return names;
}

/// The name of the function in a choice that names one.
result<std::string_view> read_named_choice(const json::value& choice, const std::string& path) {
  const auto* object = choice.if_object();
  if (object == nullptr) return refuse_kind(path, "an object", choice);
  if (const auto ok = only_members(*object, path, tool_members); !ok) return ok.error();
  if (const auto ok = check_type(*object, path, "function"); !ok) return ok.error();
  const auto function = object_member(*object, path, "function");
  if (!function) return function.error();
  constexpr std::array<std::string_view, 1> known = {"name"};
  const std::string where = path + ".function";
  if (const auto ok = only_members(**function, where, known); !ok) return ok.error();
  return function_name(**function, where);
}

/// Keeps, of the tools, those that OpenAI's allowed_tools names; gives the choice that is left among them.
result<json::value> keep_allowed(const json::object& choice, const name_set& names, json::array& tools) {
  constexpr std::array<std::string_view, 2> outer = {"type", "allowed_tools"};
  if (const auto ok = only_members(choice, "tool_choice", outer); !ok) return ok.error();
  const auto given = object_member(choice, "tool_choice", "allowed_tools");
  if (!given) return given.error();
  const std::string path = "tool_choice.allowed_tools";
  constexpr std::array<std::string_view, 2> known = {"mode", "tools"};
  if (const auto ok = only_members(**given, path, known); !ok) return ok.error();
  const auto mode = text_member(**given, path, "mode");
  if (!mode) return mode.error();
  if (*mode != "auto" && *mode != "required")
    return refuse_word(path + ".mode", "'auto' or 'required'", *mode);
  const auto* list = find_member(**given, "tools");
  const std::string where = path + ".tools";
  if (list == nullptr) return refuse_field(where, "is missing");
  if (!list->is_array()) return refuse_kind(where, "an array", *list);
  name_set allowed;
  for (std::size_t i = 0; i < list->get_array().size(); ++i) {
    const auto name = read_named_choice(list->get_array()[i], element_path(where, i));
    if (!name) return name.error();
    if (!names.contains(*name)) {
      return refuse_field(element_path(where, i),
                          "names '" + std::string(*name) + "', which is none of the tools");
    }
    allowed.emplace(*name);
  }
  json::array kept;
  for (auto& tool : tools) {
    const auto& name = tool.at("function").at("name").as_string();
    if (allowed.contains(std::string_view(name))) kept.push_back(std::move(tool));
  }
  tools = std::move(kept);
  return json::value(*mode);
}

result<void> read_choice(const json::value& choice, const name_set& names, output_constraints& out) {
  const std::string path = "tool_choice";
  if (const auto* object = choice.if_object(); object != nullptr && has_type(*object, "allowed_tools")) {
    const auto mode = keep_allowed(*object, names, out.tools);
    if (!mode) return mode.error();
    return read_choice(*mode, out.tools.empty() ? name_set() : names, out);
  }
  if (choice == json::value("none")) {
    out.tools.clear();
    return {};
  }
  if (choice.is_null() || choice == json::value("auto")) {
    if (std::any_of(out.tools.begin(), out.tools.end(), is_strict)) out.kind = constraint_kind::open;
    return {};
  }
  if (names.empty()) return refuse_field(path, "must be 'none' or 'auto' where there are no tools");
  out.kind = constraint_kind::calls;
  if (choice == json::value("required")) return {};
  if (choice.is_string()) return refuse_field(path, "must be 'none', 'auto', 'required' or a function");
  const auto name = read_named_choice(choice, path);
  if (!name) return name.error();
  out.function = std::string(*name);
  if (!names.contains(*name)) {
    return refuse_field(path, "names '" + out.function + "', which is none of the tools");
  }
  out.parallel = false;  // one function is named, and is called once
  return {};
}

result<void> read_schema(const json::object& format, bool strict_fields, output_constraints& out) {
  const std::string path = "response_format.json_schema";
  constexpr std::array<std::string_view, 4> known = {"name", "description", "schema", "strict"};
  const auto object = object_member(format, "response_format", "json_schema");
  if (!object) return object.error();
  if (const auto ok = only_members(**object, path, known); !ok) return ok;
  // The name is for the model's eyes at most; only OpenAI wants one.
  if (strict_fields || find_member(**object, "name") != nullptr) {
    if (const auto name = function_name(**object, path); !name) return name.error();
  }
  if (const auto ok = optional_text_member(**object, path, "description"); !ok) return ok.error();
  const auto strict = flag_member(**object, path, "strict");
  if (!strict) return strict.error();
  const auto schema = object_member(**object, path, "schema");
  if (!schema) return schema.error();
  out.strict = *strict;
  out.schema = **schema;
  return {};
}

/// Asks for an answer that is valid under a schema; null asks for any object.
result<void> ask_json(const std::string& field, const json::value& schema, output_constraints& out) {
  if (!schema.is_null() && !schema.is_object() && !schema.is_bool()) {
    return refuse_kind(field, "a JSON schema", schema);
  }
  out.kind = constraint_kind::json;
  out.schema = schema;
  return {};
}

bool has_member(const json::value& object, std::string_view name, const json::value& value) {
  const auto* members = object.if_object();
  const auto* member = members == nullptr ? nullptr : members->if_contains(name);
  return member != nullptr && *member == value;
}

result<void> read_format(const json::value& format, bool strict_fields, output_constraints& out) {
  if (format.is_null()) return {};
  const std::string path = "response_format";
  constexpr std::array<std::string_view, 3> known = {"type", "json_schema", "schema"};
  const auto* object = format.if_object();
  if (object == nullptr) return refuse_kind(path, "an object", format);
  if (const auto ok = only_members(*object, path, known); !ok) return ok;
  const auto* given = find_member(*object, "type");
  const json::value type = given == nullptr ? json::value() : *given;
  const bool schema = type == json::value("json_schema");
  const auto* described = find_member(*object, "json_schema");
  if (!schema && described != nullptr) {
    return refuse_field(path + ".json_schema", "needs 'type': 'json_schema'");
  }
  // llama-server's way to give a schema.
  const auto* direct = find_member(*object, "schema");
  if (direct != nullptr && (strict_fields || (!schema && type != json::value("json_object")))) {
    return refuse_field(path + ".schema", "is not supported");
  }
  if (direct != nullptr && described != nullptr && !has_member(*described, "schema", *direct)) {
    return refuse_field(path + ".schema", "contradicts '" + path + ".json_schema'");
  }
  if (type == json::value("text")) return {};
  if (!schema && type != json::value("json_object")) {
    return refuse_field(path + ".type", "must be 'text', 'json_object' or 'json_schema'");
  }
  if (const auto asked = ask_json(path, direct != nullptr ? *direct : json::value(), out); !asked)
    return asked;
  const bool whole = schema && (described != nullptr || direct == nullptr);
  return whole ? read_schema(*object, strict_fields, out) : result<void>();
}

/// Asks for a text that a pattern, a grammar or a list of choices describes.
result<void> ask_text(const guided_output& guided, output_constraints& out) {
  const bool list = guided.kind == guided_kind::choice;
  if (out.kind == constraint_kind::calls || !out.tools.empty()) {
    return refuse_field(guided.field, "cannot be beside tools that may be called");
  }
  if (list && !guided.value.is_array()) return refuse_kind(guided.field, "an array of strings", guided.value);
  if (!list && !guided.value.is_string()) return refuse_kind(guided.field, "a string", guided.value);
  if (!list) {
    out.texts.emplace_back(guided.value.get_string());
  } else {
    for (const json::value& choice : guided.value.get_array()) {
      if (!choice.is_string()) return refuse_kind(guided.field, "an array of strings", choice);
      out.texts.emplace_back(choice.get_string());
    }
  }
  out.kind = constraint_kind::text;
  out.text_kind = guided.kind;
  return {};
}

/// The schema that a guided field gives; nothing where it asks for a text.
result<std::optional<json::value>> schema_of(const guided_output& guided) {
  using schema = std::optional<json::value>;
  if (guided.kind == guided_kind::json_object) return schema(std::in_place);
  if (guided.kind != guided_kind::json) return schema();
  if (!guided.value.is_string()) return schema(guided.value);
  auto tree = read_json_tree(guided.value.get_string());
  if (!tree) return refuse_field(guided.field, "must be a JSON schema: " + tree.error().message);
  return schema(json::value(std::move(*tree)));
}

result<void> read_guided(const guided_output& guided, const json::value& format, output_constraints& out) {
  const auto schema = schema_of(guided);
  if (!schema) return schema.error();
  if (!format.is_null() && format != json::value(json::object{{"type", "text"}})) {
    // Clients send the older and the newer name of one.
    const bool same = out.kind == constraint_kind::json && *schema && **schema == out.schema;
    return same ? result<void>() : refuse_field(guided.field, "cannot be beside 'response_format'");
  }
  out.field = guided.field;
  return *schema ? ask_json(guided.field, **schema, out) : ask_text(guided, out);
}

}  // namespace

result<std::string_view> function_name(const json::object& object, const std::string& path) {
  // OpenAI's own limit is 64; Anthropic's is this, and so long are names that agents make of MCP servers.
  constexpr std::size_t bytes_max = 128;
  const auto name = text_member(object, path, "name");
  if (!name) return name;
  const bool known = std::all_of(name->begin(), name->end(), [](char c) {
    return is_alphanumeric(c) || std::string_view("_-.:").find(c) != std::string_view::npos;
  });
  if (known && !name->empty() && name->size() <= bytes_max) return name;
  return refuse_field(path + ".name", "must be 1 to " + std::to_string(bytes_max) +
                                          " letters, digits, '_', '-', '.' and ':'");
}

result<output_constraints> check_constraints(constraint_fields asked) {
  for (json::value& tool : asked.tools) drop_unused(tool, asked.strict_fields);
  const auto names = check_tools(asked.tools);
  if (!names) return names.error();
  output_constraints out;
  out.parallel = asked.parallel_tool_calls;
  out.tools = std::move(asked.tools);
  if (const auto read = read_choice(asked.tool_choice, *names, out); !read) return read.error();
  const bool forced = out.kind == constraint_kind::calls;
  // A format is that of a text: where a call is demanded it is checked, and has nothing to say.
  output_constraints unused;
  unused.kind = out.kind;
  output_constraints& text = forced ? unused : out;
  if (const auto read = read_format(asked.response_format, asked.strict_fields, text); !read) {
    return read.error();
  }
  if (asked.guided) {
    if (const auto read = read_guided(*asked.guided, asked.response_format, text); !read) return read.error();
  }
  return out;
}

}  // namespace orcd::net
