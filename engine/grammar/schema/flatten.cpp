#include "engine/grammar/schema/flatten.hpp"

#include <string_view>
#include <utility>

#include "engine/grammar/schema/forms.hpp"
#include "engine/grammar/schema/keywords.hpp"
#include "engine/grammar/schema/merge.hpp"
#include "engine/grammar/schema/negation.hpp"
#include "engine/grammar/schema/values.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

// A constant as a list of one value.
void list_constant(json::object& schema, const std::string& where) {
  const json::value* only = schema.if_contains("const");
  if (only == nullptr) return;
  const json::value* list = schema.if_contains("enum");
  if (list != nullptr && !has(as_list(*list), *only))
    contradict(deeper(where, "const"), "is none of the values of enum");
  json::array one = list_of(copied(*only));
  schema.erase("const");
  schema["enum"] = std::move(one);
}

/// Keywords that flatten_schema replaces by others.
bool is_resolved(std::string_view name) noexcept {
  return name == "$ref" || name == "allOf" || name == "not" || name == "if" || name == "then" ||
         name == "else" || name == "dependentSchemas" || name == "dependentRequired";
}

// Refuses, under its own path, what cannot be merged at all.
void check_part(const json::value& root, const json::value* schema, const std::string& where,
                std::uint32_t depth) {
  if (schema == nullptr) return;
  try {
    (void)flatten_schema(root, *schema, where, depth + 1);
  } catch (const grammar_failure& failure) {
    if (!failure.impossible) throw;
  }
}

/// Refuses `keyword` where what is evaluated depends on more than which alternatives of anyOf and oneOf hold:
/// what is not valid has evaluated nothing.
void check_evaluating(const json::value& root, const json::object& schema, const char* keyword, bool inner,
                      const std::string& where, std::uint32_t depth) {
  compile_budget::work(10);
  if (depth > schema_depth_max) fail(where, "is nested too deep");
  for (const char* other : {"not", "if", "dependentSchemas", "dependentRequired", "dependencies"}) {
    if (schema.contains(other)) fail(where, std::string("is not supported beside ") + other);
  }
  if (inner && schema.contains(keyword) && (schema.contains("anyOf") || schema.contains("oneOf")))
    fail(where, "is not supported beside a schema with alternatives that has it, too");
  const auto check = [&](const json::value& part) {
    if (part.is_object()) check_evaluating(root, part.get_object(), keyword, true, where, depth + 1);
  };
  if (const json::value* reference = schema.if_contains("$ref");
      reference != nullptr && reference->is_string())
    check(resolve_reference(root, view(reference->get_string()), where));
  for (const char* list : {"allOf", "anyOf", "oneOf"}) {
    const json::value* parts = schema.if_contains(list);
    if (parts == nullptr || !parts->is_array()) continue;
    for (const json::value& part : parts->get_array()) check(part);
  }
}

/// unevaluatedProperties and unevaluatedItems of `schema`, where `out` is that with its $ref and allOf.
/// Beside alternatives they stay, until one of these has been taken.
void close_combined(const json::value& root, json::object& out, const json::object& schema,
                    const std::string& where, std::uint32_t depth) {
  for (const char* keyword : unevaluated) {
    const json::value* asked = schema.if_contains(keyword);
    if (asked == nullptr || (asked->is_bool() && asked->get_bool())) continue;
    check_evaluating(root, schema, keyword, false, deeper(where, keyword), depth);
    if (out.contains("anyOf") || out.contains("oneOf") || out.contains("if")) {
      out.emplace(keyword, copied(*asked));
    } else {
      close_unevaluated(out, keyword, *asked);
    }
  }
}

bool combines(const json::object& schema) {
  return schema.contains("$ref") || schema.contains("allOf") || schema.contains("anyOf") ||
         schema.contains("oneOf");
}

void add_if(const json::value& root, json::object& out, const json::object& schema, const std::string& where,
            std::uint32_t depth) {
  const json::value* condition = schema.if_contains("if");
  const json::value* then = schema.if_contains("then");
  const json::value* otherwise = schema.if_contains("else");
  if (condition == nullptr || (then == nullptr && otherwise == nullptr)) return;
  check_part(root, then, deeper(where, "then"), depth);
  check_part(root, otherwise, deeper(where, "else"), depth);
  json::array list(compile_budget::json());
  list.push_back(then == nullptr
                     ? copied(*condition)
                     : json::value(object_of("allOf", list_of(copied(*condition), copied(*then)))));
  for (json::value& one : alternatives_to(root, *condition, deeper(where, "if"), depth + 1)) {
    if (otherwise == nullptr) {
      list.push_back(std::move(one));
    } else {
      list.push_back(object_of("allOf", list_of(std::move(one), copied(*otherwise))));
    }
  }
  add_choice(root, out, std::move(list), where, depth);
}

/// dependentSchemas and dependentRequired.
void add_dependents(const json::value& root, json::object& out, const json::object& schema,
                    const char* keyword, const std::string& at, std::uint32_t depth) {
  const std::string where = deeper(at, keyword);
  const json::value* asked = schema.if_contains(keyword);
  if (asked == nullptr) return;
  if (!asked->is_object()) fail(where, "must be an object");
  for (const auto& member : asked->get_object()) {
    json::array list(compile_budget::json());
    json::object there = object_of("type", word("object"), "required", list_of(json::string(member.key())));
    if (std::string_view(keyword) == "dependentSchemas") {
      check_part(root, &member.value(), deeper(where, view(member.key())), depth);
      there.emplace("allOf", list_of(copied(member.value())));
    } else {
      const name_set names = names_of(&member.value(), deeper(where, view(member.key())));
      if (names.empty()) continue;
      for (const json::value& name : member.value().get_array())
        there.at("required").get_array().push_back(name);
    }
    list.push_back(std::move(there));
    list.push_back(object_of("properties", object_of(view(member.key()), false), "type", word("object")));
    json::array others(compile_budget::json());
    for (const std::string_view name : type_names) {
      if (name != "object") others.push_back(word(name));
    }
    list.push_back(object_of("type", std::move(others)));
    add_choice(root, out, std::move(list), deeper(where, view(member.key())), depth);
  }
}

// Puts the conditions of `schema` (not, if, dependentRequired, dependentSchemas) into `out`, the rest of it.
void add_conditions(const json::value& root, json::object& out, const json::object& schema,
                    const std::string& where, std::uint32_t depth) {
  if (const json::value* excluded = schema.if_contains("not")) {
    if (is_plain_exclusion(out, *excluded)) {
      out = merge_schemas(std::move(out), object_of("not", list_of(copied(*excluded))), where);
    } else {
      const std::string at = deeper(where, "not");
      add_choice(root, out, alternatives_to(root, *excluded, at, depth + 1), at, depth);
    }
  }
  add_if(root, out, schema, where, depth);
  for (const char* keyword : {"dependentRequired", "dependentSchemas"})
    add_dependents(root, out, schema, keyword, where, depth);
}

}  // namespace

void add_choice(const json::value& root, json::object& out, json::array list, const std::string& where,
                std::uint32_t depth) {
  if (list.empty()) contradict(where, "no value is valid under this");
  if (list.size() == 1) {
    out = merge_schemas(std::move(out), flatten_schema(root, list.front(), where, depth + 1), where);
    return;
  }
  if (!out.contains("if")) out.emplace("if", json::array(compile_budget::json()));
  out.at("if").get_array().push_back(std::move(list));
}

json::object flatten_schema(const json::value& root, const json::value& schema, const std::string& where,
                            std::uint32_t depth) {
  if (depth > schema_depth_max) {
    fail(where, "the schema is nested more than " + std::to_string(schema_depth_max) + " deep");
  }
  const compile_budget::place here(where);
  if (schema.is_bool()) {
    if (schema.get_bool()) return json::object(compile_budget::json());
    contradict(where, "a combined schema is false");
  }
  if (!schema.is_object()) fail(where, "a schema is an object or a boolean");
  compile_budget::work(10 + size_of(schema));
  if (schema.get_object().contains("dependencies")) {
    json::object plain = copied(schema.get_object());
    modernize_dependencies(plain, where);
    return flatten_schema(root, json::value(std::move(plain)), where, depth + 1);
  }
  json::object out(compile_budget::json());
  for (const auto& member : schema.get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const keyword_kind kind = kind_of_keyword(name);
    if (kind == keyword_kind::unsupported) fail(deeper(where, name), "this keyword is not supported");
    if (kind == keyword_kind::annotation || is_resolved(name)) continue;
    out.emplace(member.key(), member.value());
  }
  modernize(out, where);
  const bool combined = combines(schema.get_object());
  if (combined) {
    for (const char* keyword : unevaluated) out.erase(keyword);
  } else {
    close_unevaluated(out, schema.get_object(), where);
  }
  list_constant(out, where);
  if (const json::value* reference = schema.get_object().if_contains("$ref")) {
    const std::string at = deeper(where, "$ref");
    if (!reference->is_string()) fail(at, "a reference is a string");
    const json::value& target = resolve_reference(root, view(reference->get_string()), at);
    out =
        merge_schemas(std::move(out),
                      flatten_schema(root, target, path_of(view(reference->get_string())), depth + 1), where);
  }
  if (const json::value* all = schema.get_object().if_contains("allOf")) {
    const std::string at = deeper(where, "allOf");
    if (!all->is_array() || all->get_array().empty()) fail(at, "allOf is a list of schemas");
    std::size_t i = 0;
    for (const json::value& part : all->get_array()) {
      const std::string part_at = deeper(at, std::to_string(i++));
      out = merge_schemas(std::move(out), flatten_schema(root, part, part_at, depth + 1), part_at);
    }
  }
  if (combined) close_combined(root, out, schema.get_object(), where, depth);
  add_conditions(root, out, schema.get_object(), where, depth);
  return out;
}

}  // namespace orcd::engine::grammar
