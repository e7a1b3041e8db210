#include "net/openai/output_constraints.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "net/json/field_checks.hpp"
#include "net/json/json_value.hpp"
#include "net/json/text.hpp"
#include "net/openai/left_fields.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::error;
using engine::result;

error wrong_kind(const std::string& path, std::string_view must, const json::value& value) {
  return refuse_field(path, "must be " + std::string(must) + ", it is " + std::string(kind_name(value)));
}

/// The object at `path`, whose members must all be in the list.
template <std::size_t N>
result<const json::object*> object_of(const json::value* value, const std::string& path,
                                      const std::array<std::string_view, N>& known) {
  if (value == nullptr || value->is_null()) return refuse_field(path, "is missing");
  const auto* object = value->if_object();
  if (object == nullptr) return wrong_kind(path, "an object", *value);
  for (const auto& field : *object) {
    if (std::find(known.begin(), known.end(), field.key()) != known.end()) continue;
    return refuse_field(path + "." + shown_name(field.key()), "is not supported");
  }
  return object;
}

const json::value* member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

result<std::string> name_in(const json::object& object, const std::string& path) {
  constexpr std::size_t bytes_max = 64;
  const auto* value = member(object, "name");
  const std::string where = path + ".name";
  if (value == nullptr) return refuse_field(where, "is missing");
  if (!value->is_string()) return wrong_kind(where, "a string", *value);
  std::string name(value->get_string());
  const bool known = std::all_of(name.begin(), name.end(), [](char c) {
    return is_alphanumeric(c) || std::string_view("_-.:").find(c) != std::string_view::npos;
  });
  if (known && !name.empty() && name.size() <= bytes_max) return name;
  return refuse_field(
      where, "must be 1 to " + std::to_string(bytes_max) + " letters, digits, '_', '-', '.' and ':'");
}

result<bool> strict_in(const json::object& object, const std::string& path) {
  const auto* value = member(object, "strict");
  if (value == nullptr) return false;
  if (!value->is_bool()) return wrong_kind(path + ".strict", "true or false", *value);
  return value->get_bool();
}

result<void> check_text(const json::object& object, const std::string& path, std::string_view name) {
  const auto* value = member(object, name);
  if (value == nullptr || value->is_string()) return {};
  return wrong_kind(path + "." + std::string(name), "a string", *value);
}

result<void> check_type(const json::object& object, const std::string& path, std::string_view type) {
  const auto* value = member(object, "type");
  if (value != nullptr && *value == json::value(type)) return {};
  return refuse_field(path + ".type", "must be '" + std::string(type) + "'");
}

bool is_strict(const json::value& tool) {
  const auto* strict = tool.at("function").as_object().if_contains("strict");
  return strict != nullptr && *strict == json::value(true);
}

/// Takes the members out that cannot change an answer: a template may print whatever a tool has.
void drop_left(json::object& object, field_place place) {
  for (auto it = object.begin(); it != object.end();) {
    it = is_left_field(place, it->key()) ? object.erase(it) : it + 1;
  }
}

void drop_left(json::value& tool) {
  auto* object = tool.if_object();
  if (object == nullptr) return;
  drop_left(*object, field_place::tool);
  auto* function = object->if_contains("function");
  if (function != nullptr && function->is_object()) {
    drop_left(function->get_object(), field_place::function);
  }
}

/// One tool; returns its name.
result<std::string> check_tool(const json::value& tool, const std::string& path) {
  constexpr std::array<std::string_view, 2> known = {"type", "function"};
  constexpr std::array<std::string_view, 4> parts = {"name", "description", "parameters", "strict"};
  const auto object = object_of(&tool, path, known);
  if (!object) return object.error();
  if (const auto ok = check_type(**object, path, "function"); !ok) return ok.error();
  const std::string where = path + ".function";
  const auto function = object_of((*object)->if_contains("function"), where, parts);
  if (!function) return function.error();
  if (const auto ok = check_text(**function, where, "description"); !ok) return ok.error();
  if (const auto ok = strict_in(**function, where); !ok) return ok.error();
  if (const auto* parameters = member(**function, "parameters");
      parameters != nullptr && !parameters->is_object()) {
    return wrong_kind(where + ".parameters", "an object", *parameters);
  }
  return name_in(**function, where);
}

result<std::set<std::string>> check_tools(const json::array& tools) {
  if (tools.size() > tools_max) {
    return refuse_field(
        "tools", "may have " + std::to_string(tools_max) + " tools, it has " + std::to_string(tools.size()));
  }
  std::set<std::string> names;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string path = "tools[" + std::to_string(i) + "]";
    const auto name = check_tool(tools[i], path);
    if (!name) return name.error();
    if (!names.insert(*name).second) {
      return refuse_field(path + ".function.name", "is '" + *name + "', which is there already");
    }
  }
  return names;
}

result<void> read_choice(const json::value& choice, const std::set<std::string>& names,
                         output_constraints& out) {
  const std::string path = "tool_choice";
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
  constexpr std::array<std::string_view, 2> known = {"type", "function"};
  constexpr std::array<std::string_view, 1> parts = {"name"};
  const auto object = object_of(&choice, path, known);
  if (!object) return object.error();
  if (const auto ok = check_type(**object, path, "function"); !ok) return ok;
  const auto function = object_of((*object)->if_contains("function"), path + ".function", parts);
  if (!function) return function.error();
  auto name = name_in(**function, path + ".function");
  if (!name) return name.error();
  if (!names.contains(*name)) return refuse_field(path, "names '" + *name + "', which is none of the tools");
  out.function = std::move(*name);
  out.parallel = false;  // one function is named, and is called once
  return {};
}

result<void> read_schema(const json::object& format, bool strict_fields, output_constraints& out) {
  const std::string path = "response_format.json_schema";
  constexpr std::array<std::string_view, 4> known = {"name", "description", "schema", "strict"};
  const auto object = object_of(format.if_contains("json_schema"), path, known);
  if (!object) return object.error();
  // The name is for the model's eyes at most; only OpenAI wants one.
  if (strict_fields || member(**object, "name") != nullptr) {
    if (const auto name = name_in(**object, path); !name) return name.error();
  }
  if (const auto ok = check_text(**object, path, "description"); !ok) return ok;
  const auto strict = strict_in(**object, path);
  if (!strict) return strict.error();
  const auto* schema = member(**object, "schema");
  if (schema == nullptr) return refuse_field(path + ".schema", "is missing");
  if (!schema->is_object()) return wrong_kind(path + ".schema", "an object", *schema);
  out.strict = *strict;
  out.schema = *schema;
  return {};
}

/// Asks for an answer that is valid under a schema; null asks for any object.
result<void> ask_json(const std::string& field, const json::value& schema, output_constraints& out) {
  if (!schema.is_null() && !schema.is_object() && !schema.is_bool()) {
    return wrong_kind(field, "a JSON schema", schema);
  }
  if (out.kind == constraint_kind::calls) {
    return refuse_field(field, "is for an answer, but 'tool_choice' demands a call");
  }
  out.kind = constraint_kind::json;
  out.schema = schema;
  return {};
}

result<void> read_format(const json::value& format, bool strict_fields, output_constraints& out) {
  if (format.is_null()) return {};
  const std::string path = "response_format";
  constexpr std::array<std::string_view, 3> known = {"type", "json_schema", "schema"};
  const auto object = object_of(&format, path, known);
  if (!object) return object.error();
  const auto* given = member(**object, "type");
  const json::value type = given == nullptr ? json::value() : *given;
  const bool schema = type == json::value("json_schema");
  if (!schema && member(**object, "json_schema") != nullptr) {
    return refuse_field(path + ".json_schema", "needs 'type': 'json_schema'");
  }
  // llama-server's way to give a schema.
  const auto* direct = member(**object, "schema");
  if (direct != nullptr && (strict_fields || schema || type != json::value("json_object"))) {
    return refuse_field(path + ".schema", "is not supported");
  }
  if (type == json::value("text")) return {};
  if (!schema && type != json::value("json_object")) {
    return refuse_field(path + ".type", "must be 'text', 'json_object' or 'json_schema'");
  }
  if (const auto asked = ask_json(path, direct != nullptr ? *direct : json::value(), out); !asked)
    return asked;
  return schema ? read_schema(**object, strict_fields, out) : result<void>();
}

/// Asks for a text that a pattern, a grammar or a list of choices describes.
result<void> ask_text(const guided_output& guided, output_constraints& out) {
  const bool list = guided.kind == guided_kind::choice;
  if (out.kind == constraint_kind::calls || !out.tools.empty()) {
    return refuse_field(guided.field, "cannot be beside tools that may be called");
  }
  if (list && !guided.value.is_array()) return wrong_kind(guided.field, "an array of strings", guided.value);
  if (!list && !guided.value.is_string()) return wrong_kind(guided.field, "a string", guided.value);
  if (!list) {
    out.texts.emplace_back(guided.value.get_string());
  } else {
    for (const json::value& choice : guided.value.get_array()) {
      if (!choice.is_string()) return wrong_kind(guided.field, "an array of strings", choice);
      out.texts.emplace_back(choice.get_string());
    }
  }
  out.kind = constraint_kind::text;
  out.text_kind = guided.kind;
  return {};
}

result<void> read_guided(const guided_output& guided, const json::value& format, output_constraints& out) {
  if (!format.is_null() && format != json::value(json::object{{"type", "text"}})) {
    return refuse_field(guided.field, "cannot be beside 'response_format'");
  }
  out.field = guided.field;
  if (guided.kind != guided_kind::json && guided.kind != guided_kind::json_object) {
    return ask_text(guided, out);
  }
  if (guided.kind == guided_kind::json_object) return ask_json(guided.field, json::value(), out);
  if (!guided.value.is_string()) return ask_json(guided.field, guided.value, out);
  auto tree = read_json_tree(guided.value.get_string());
  if (!tree) return refuse_field(guided.field, "must be a JSON schema: " + tree.error().message);
  return ask_json(guided.field, json::value(std::move(*tree)), out);
}

}  // namespace

result<output_constraints> check_constraints(constraint_fields asked) {
  if (!asked.strict_fields) {
    for (json::value& tool : asked.tools) drop_left(tool);
  }
  const auto names = check_tools(asked.tools);
  if (!names) return names.error();
  output_constraints out;
  out.parallel = asked.parallel_tool_calls;
  out.tools = std::move(asked.tools);
  if (const auto read = read_choice(asked.tool_choice, *names, out); !read) return read.error();
  if (const auto read = read_format(asked.response_format, asked.strict_fields, out); !read) {
    return read.error();
  }
  if (asked.guided) {
    if (const auto read = read_guided(*asked.guided, asked.response_format, out); !read) return read.error();
  }
  return out;
}

}  // namespace orcd::net
