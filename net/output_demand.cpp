#include "net/output_demand.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "net/field_checks.hpp"
#include "net/json_value.hpp"
#include "net/text.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::error;
using engine::result;

error wrong_kind(const std::string& place, std::string_view must, const json::value& value) {
  return refuse_field(place, "must be " + std::string(must) + ", it is " + std::string(kind_name(value)));
}

/// The object at a place, whose members are all in the list.
template <std::size_t N>
result<const json::object*> object_of(const json::value* value, const std::string& place,
                                      const std::array<std::string_view, N>& known) {
  if (value == nullptr || value->is_null()) return refuse_field(place, "is missing");
  const auto* object = value->if_object();
  if (object == nullptr) return wrong_kind(place, "an object", *value);
  for (const auto& field : *object) {
    if (std::find(known.begin(), known.end(), field.key()) != known.end()) continue;
    return refuse_field(place + "." + shown_name(field.key()), "is not supported");
  }
  return object;
}

const json::value* member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

result<std::string> name_in(const json::object& object, const std::string& place) {
  constexpr std::size_t bytes_max = 64;
  const auto* value = member(object, "name");
  const std::string where = place + ".name";
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

result<bool> strict_in(const json::object& object, const std::string& place) {
  const auto* value = member(object, "strict");
  if (value == nullptr) return false;
  if (!value->is_bool()) return wrong_kind(place + ".strict", "true or false", *value);
  return value->get_bool();
}

result<void> check_text(const json::object& object, const std::string& place, std::string_view name) {
  const auto* value = member(object, name);
  if (value == nullptr || value->is_string()) return {};
  return wrong_kind(place + "." + std::string(name), "a string", *value);
}

result<void> check_type(const json::object& object, const std::string& place, std::string_view type) {
  const auto* value = member(object, "type");
  if (value != nullptr && *value == json::value(type)) return {};
  return refuse_field(place + ".type", "must be '" + std::string(type) + "'");
}

bool is_strict(const json::value& tool) {
  const auto* strict = tool.at("function").as_object().if_contains("strict");
  return strict != nullptr && *strict == json::value(true);
}

/// One tool; returns its name.
result<std::string> check_tool(const json::value& tool, const std::string& place) {
  constexpr std::array<std::string_view, 2> known = {"type", "function"};
  constexpr std::array<std::string_view, 4> parts = {"name", "description", "parameters", "strict"};
  const auto object = object_of(&tool, place, known);
  if (!object) return object.error();
  if (const auto ok = check_type(**object, place, "function"); !ok) return ok.error();
  const std::string where = place + ".function";
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
    const std::string place = "tools[" + std::to_string(i) + "]";
    const auto name = check_tool(tools[i], place);
    if (!name) return name.error();
    if (!names.insert(*name).second) {
      return refuse_field(place + ".function.name", "is '" + *name + "', which is there already");
    }
  }
  return names;
}

result<void> read_choice(const json::value& choice, const std::set<std::string>& names, output_demand& out) {
  const std::string place = "tool_choice";
  if (choice == json::value("none")) {
    out.tools.clear();
    return {};
  }
  if (choice.is_null() || choice == json::value("auto")) {
    if (std::any_of(out.tools.begin(), out.tools.end(), is_strict)) out.rule = output_rule::open;
    return {};
  }
  if (names.empty()) return refuse_field(place, "must be 'none' or 'auto' where there are no tools");
  out.rule = output_rule::calls;
  if (choice == json::value("required")) return {};
  if (choice.is_string()) return refuse_field(place, "must be 'none', 'auto', 'required' or a function");
  constexpr std::array<std::string_view, 2> known = {"type", "function"};
  constexpr std::array<std::string_view, 1> parts = {"name"};
  const auto object = object_of(&choice, place, known);
  if (!object) return object.error();
  if (const auto ok = check_type(**object, place, "function"); !ok) return ok;
  const auto function = object_of((*object)->if_contains("function"), place + ".function", parts);
  if (!function) return function.error();
  auto name = name_in(**function, place + ".function");
  if (!name) return name.error();
  if (!names.contains(*name)) return refuse_field(place, "names '" + *name + "', which is none of the tools");
  out.function = std::move(*name);
  return {};
}

result<void> read_schema(const json::object& format, output_demand& out) {
  const std::string place = "response_format.json_schema";
  constexpr std::array<std::string_view, 4> known = {"name", "description", "schema", "strict"};
  const auto object = object_of(format.if_contains("json_schema"), place, known);
  if (!object) return object.error();
  if (const auto name = name_in(**object, place); !name) return name.error();
  if (const auto ok = check_text(**object, place, "description"); !ok) return ok;
  const auto strict = strict_in(**object, place);
  if (!strict) return strict.error();
  const auto* schema = member(**object, "schema");
  if (schema == nullptr) return refuse_field(place + ".schema", "is missing");
  if (!schema->is_object()) return wrong_kind(place + ".schema", "an object", *schema);
  out.strict = *strict;
  out.schema = *schema;
  return {};
}

result<void> read_format(const json::value& format, output_demand& out) {
  if (format.is_null()) return {};
  const std::string place = "response_format";
  constexpr std::array<std::string_view, 2> known = {"type", "json_schema"};
  const auto object = object_of(&format, place, known);
  if (!object) return object.error();
  const auto* type = member(**object, "type");
  const bool schema = type != nullptr && *type == json::value("json_schema");
  if (!schema && member(**object, "json_schema") != nullptr) {
    return refuse_field(place + ".json_schema", "needs 'type': 'json_schema'");
  }
  if (type != nullptr && *type == json::value("text")) return {};
  if (!schema && (type == nullptr || *type != json::value("json_object"))) {
    return refuse_field(place + ".type", "must be 'text', 'json_object' or 'json_schema'");
  }
  if (out.rule == output_rule::calls) {
    return refuse_field(place, "is for an answer, but 'tool_choice' demands a call");
  }
  out.rule = output_rule::json;
  return schema ? read_schema(**object, out) : result<void>();
}

}  // namespace

result<output_demand> check_constraints(output_constraints asked) {
  const auto names = check_tools(asked.tools);
  if (!names) return names.error();
  output_demand out;
  out.parallel = asked.parallel_tool_calls;
  out.tools = std::move(asked.tools);
  if (const auto read = read_choice(asked.tool_choice, *names, out); !read) return read.error();
  if (const auto read = read_format(asked.response_format, out); !read) return read.error();
  return out;
}

}  // namespace orcd::net
