#include "engine/grammar/schema/compiler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/regex.hpp"
#include "engine/grammar/schema/formats.hpp"
#include "engine/grammar/schema/merge.hpp"

namespace orcd::engine::grammar {

namespace {

namespace json = boost::json;

struct keyword_type {
  std::string_view keyword, type;
};
/// The types that keywords imply in a schema without a type.
constexpr auto implied_types = std::to_array<keyword_type>({{"properties", "object"},
                                                            {"required", "object"},
                                                            {"additionalProperties", "object"},
                                                            {"patternProperties", "object"},
                                                            {"propertyNames", "object"},
                                                            {"minProperties", "object"},
                                                            {"maxProperties", "object"},
                                                            {"items", "array"},
                                                            {"prefixItems", "array"},
                                                            {"minItems", "array"},
                                                            {"maxItems", "array"},
                                                            {"pattern", "string"},
                                                            {"format", "string"},
                                                            {"minLength", "string"},
                                                            {"maxLength", "string"},
                                                            {"minimum", "number"},
                                                            {"maximum", "number"},
                                                            {"exclusiveMinimum", "number"},
                                                            {"exclusiveMaximum", "number"},
                                                            {"multipleOf", "number"},
                                                            {"uniqueItems", "array"}});

std::vector<std::string_view> types_of(const json::object& schema, const std::string& where) {
  std::vector<std::string_view> out;
  const json::value* type = schema.if_contains("type");
  if (type == nullptr) {
    for (const auto& [keyword, implied] : implied_types) {
      if (schema.contains({keyword.data(), keyword.size()}) &&
          std::find(out.begin(), out.end(), implied) == out.end()) {
        out.push_back(implied);
      }
    }
    return out;
  }
  const std::string at = deeper(where, "type");
  const auto add = [&](const json::value& name) {
    if (!name.is_string()) fail(at, "a type is a string");
    out.push_back(view(name.get_string()));
  };
  if (!type->is_array()) {
    add(*type);
  } else {
    for (const json::value& name : type->get_array()) add(name);
    if (out.empty() || out.size() > 7) fail(at, "a list of types has 1 to 7");
  }
  return out;
}

bool has_type(const json::value& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_bool();
  if (type == "string") return value.is_string();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number() &&
         (!value.is_double() || value.get_double() == std::floor(value.get_double()));
}

}  // namespace

bool has_any_type(const json::value& value, const json::object& schema, const std::string& where) {
  const auto types = types_of(schema, where);
  return types.empty() || std::any_of(types.begin(), types.end(),
                                      [&](std::string_view type) { return has_type(value, type); });
}

json_grammar::json_grammar(program_builder& builder)
    : builder_(builder), gap_(call(builder.add("#", whitespace()))) {}

expr json_grammar::plain_number(bool whole) {
  auto& made = numbers_[whole ? 1 : 0];
  if (!made) made = call(builder_.add("#", whole ? integer() : number()));
  return *made;
}

expr json_grammar::matching(std::string_view pattern, const std::string& where) {
  const auto known = patterns_.find(pattern);
  if (known != patterns_.end()) return known->second;
  const compile_budget::place here(where);
  const expr body = sequence({literal("\""), string_matching(pattern, where), literal("\"")});
  return patterns_.emplace(pattern, call(builder_.add(where, body))).first->second;
}

expr json_grammar::any_value() {
  define_any();
  return call(value_);
}

expr json_grammar::any_object() {
  define_any();
  return call(object_);
}

void json_grammar::define_any() {
  if (std::exchange(defined_, true)) return;
  value_ = builder_.declare("#");
  object_ = builder_.declare("#");
  const rule_id array = builder_.declare("#");
  const expr comma = sequence({literal(","), gap_});
  const auto listed = [&](const char* open, const expr& item, const char* close) {
    return sequence({literal(open), gap_,
                     optional(sequence({item, repeat(sequence({comma, item}), 0, unbounded), gap_})),
                     literal(close)});
  };
  builder_.define(object_, listed("{", sequence({call(string_rule), literal(":"), gap_, call(value_)}), "}"));
  builder_.define(array, listed("[", call(value_), "]"));
  builder_.define(value_, choice({call(object_), call(array), call(string_rule), plain_number(false),
                                  literal("true"), literal("false"), literal("null")}));
}

expr schema_compiler::value(const json::value& schema, const std::string& where, std::uint32_t depth) {
  if (depth > schema_depth_max) {
    fail(where, "the schema is nested more than " + std::to_string(schema_depth_max) + " deep");
  }
  const compile_budget::place here(where);
  if (++subschemas_ > limits_.subschemas) {
    fail(where, "the schema has more than " + std::to_string(limits_.subschemas) + " parts");
  }
  if (schema.is_bool()) return schema.get_bool() ? shared_.any_value() : choice({});
  if (!schema.is_object()) fail(where, "a schema is an object or a boolean");
  std::string_view only;  // the constraint, if there is just one
  std::size_t constraints = 0;
  compile_budget::work(20 + 4 * schema.get_object().size());
  for (const auto& member : schema.get_object()) {
    const std::string_view name = view(member.key());
    const keyword_kind kind = kind_of_keyword(name);
    if (kind == keyword_kind::unsupported) fail(deeper(where, name), "this keyword is not supported");
    if (kind == keyword_kind::annotation) continue;
    ++constraints;
    only = name;
  }
  // A $ref alone is not merged, so that it may be recursive.
  if (constraints == 1 && only == "$ref") {
    const std::string at = deeper(where, "$ref");
    const json::value& name = schema.get_object().at("$ref");
    if (!name.is_string()) fail(at, "a reference is a string");
    return reference(resolve_reference(root_, view(name.get_string()), at), path_of(view(name.get_string())),
                     depth);
  }
  if (constraints == 1 && only == "allOf") {
    const json::array* all = schema.get_object().at("allOf").if_array();
    if (all != nullptr && all->size() == 1) return value(all->front(), where + "/allOf/0", depth + 1);
  }
  return flat(flatten_schema(root_, schema, where, depth), where, depth);
}

expr schema_compiler::reference(const json::value& target, const std::string& where, std::uint32_t depth) {
  const auto found = references_.find(&target);
  if (found != references_.end()) return call(found->second);
  const rule_id rule = builder_.declare(where);
  references_.emplace(&target, rule);
  builder_.define(rule, value(target, where, depth + 1));
  return call(rule);
}

expr schema_compiler::flat(const object& schema, const std::string& where, std::uint32_t depth) {
  if (schema.contains("dependentRequired")) return dependent(schema, where, depth);
  const bool any = schema.contains("anyOf");
  if (any && schema.contains("oneOf")) fail(deeper(where, "oneOf"), "cannot be combined with anyOf");
  if (any) return branches(schema, "anyOf", where, depth);
  if (schema.contains("oneOf")) return branches(schema, "oneOf", where, depth);
  if (schema.contains("enum") || schema.contains("const")) return values(schema, where);
  const auto types = types_of(schema, where);
  if (types.empty()) return shared_.any_value();
  std::vector<expr> out;
  for (const std::string_view type : types) {
    // "number" includes every integer.
    if (type == "integer" && std::find(types.begin(), types.end(), "number") != types.end()) continue;
    out.push_back(of_type(type, schema, where, depth));
  }
  return choice(std::move(out));
}

expr schema_compiler::branches(const object& schema, const char* keyword, const std::string& where,
                               std::uint32_t depth) {
  const std::string at = deeper(where, keyword);
  const compile_budget::place working(at);
  const json::array* list = schema.at(keyword).if_array();
  if (list == nullptr || list->empty() || list->size() > limits_.branches) {
    fail(at, "a list of 1 to " + std::to_string(limits_.branches) + " schemas is expected");
  }
  if (std::string_view(keyword) == "oneOf") refuse_overlap(*list, at, depth);
  object base = copied(schema);
  base.erase(keyword);
  std::vector<expr> out;
  std::size_t i = 0;
  for (const json::value& branch : *list) {
    const std::string here = deeper(at, std::to_string(i++));
    out.push_back(
        base.empty() ? value(branch, here, depth + 1)
                     : flat(merge_schemas(copied(base), flatten_schema(root_, branch, here, depth + 1), here),
                            here, depth + 1));
  }
  return choice(std::move(out));
}

// oneOf: a value must be valid under exactly one branch, so that branches that may overlap are refused.
void schema_compiler::refuse_overlap(const json::array& list, const std::string& where,
                                     std::uint32_t depth) const {
  std::vector<object> flattened;
  for (std::size_t i = 0; i < list.size(); ++i) {
    flattened.push_back(flatten_schema(root_, list[i], deeper(where, std::to_string(i)), depth + 1));
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    for (std::size_t j = 0; j < list.size(); ++j) {
      if (i == j || excludes(flattened[i], flattened[j])) continue;
      fail(
          deeper(where, std::to_string(i)),
          "cannot be told apart from alternative " + std::to_string(j) +
              ": alternatives of oneOf need different types or a required property with different constants; "
              "use anyOf");
    }
  }
}

expr schema_compiler::values(const object& schema, const std::string& where) {
  std::span<const json::value> list;
  if (const json::value* all = schema.if_contains("enum")) {
    const std::string at = deeper(where, "enum");
    if (!all->is_array() || all->get_array().empty() || all->get_array().size() > limits_.values) {
      fail(at, "a list of 1 to " + std::to_string(limits_.values) + " values is expected");
    }
    list = {all->get_array().data(), all->get_array().size()};
  }
  if (const json::value* only = schema.if_contains("const")) {
    if (!list.empty() &&
        std::none_of(list.begin(), list.end(), [&](const json::value& v) { return same_value(v, *only); })) {
      fail(deeper(where, "const"), "is none of the values of enum");
    }
    list = {only, 1};
  }
  for (const auto& member : schema) {
    const std::string_view name = view(member.key());
    if (name != "enum" && name != "const" && name != "type") {
      fail(deeper(where, name), "cannot be combined with enum or const");
    }
  }
  std::vector<expr> out;
  for (const json::value& item : list) {
    if (has_any_type(item, schema, where)) out.push_back(exact_value(item, shared_.gap()));
  }
  if (out.empty()) fail(where, "none of the values has the type");
  return choice(std::move(out));
}

expr schema_compiler::of_type(std::string_view type, const object& schema, const std::string& where,
                              std::uint32_t depth) {
  if (type == "null") return literal("null");
  if (type == "boolean") return choice({literal("true"), literal("false")});
  if (type == "string") return string(schema, where);
  if (type == "number" || type == "integer") return number(schema, type == "integer", where);
  if (type == "array") return array(schema, where, depth);
  if (type == "object") return members(schema, where, depth);
  fail(deeper(where, "type"), "is none of null, boolean, string, number, integer, array, object");
}

}  // namespace orcd::engine::grammar
