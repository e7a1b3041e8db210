// Compiles objects: named properties in their order, then further members.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/schema/merge.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

json::object schema_compiler::named_properties(const object& schema, const std::string& where) const {
  json::object out(compile_budget::json());
  if (const json::value* named = schema.if_contains("properties")) {
    if (!named->is_object()) fail(deeper(where, "properties"), "must be an object");
    out = copied(named->get_object());
  }
  const json::value* more = schema.if_contains("additionalProperties");
  if (const json::value* required = schema.if_contains("required")) {
    (void)names_of(required, deeper(where, "required"));
    for (const json::value& name : required->get_array()) {
      if (!out.contains(name.get_string()))
        out.emplace(name.get_string(), more == nullptr ? json::value(true) : *more);
    }
  }
  if (out.size() > limits_.properties) {
    fail(where, "an object has " + std::to_string(out.size()) + " properties, the limit is " +
                    std::to_string(limits_.properties));
  }
  return out;
}

// Checks what strict mode demands of every object, which makes all of its properties be generated. Source:
// OpenAI structured outputs.
void schema_compiler::check_strict(const object& schema, const json::object& named,
                                   const std::string& where) const {
  const json::value* more = schema.if_contains("additionalProperties");
  if (more == nullptr || !more->is_bool() || more->get_bool()) {
    fail(deeper(where, "additionalProperties"), "must be false in strict mode");
  }
  const name_set required = names_of(schema.if_contains("required"), deeper(where, "required"));
  for (const auto& member : named) {
    if (!required.contains(view(member.key()))) {
      fail(deeper(deeper(where, "properties"), view(member.key())),
           "must be listed in required in strict mode");
    }
  }
}

expr schema_compiler::further_member(const object& schema, const json::object& named,
                                     const std::string& where, std::uint32_t depth) {
  const json::value* more = schema.if_contains("additionalProperties");
  const bool free = named.empty() && more == nullptr;
  if (!free && (more == nullptr || (more->is_bool() && !more->get_bool()))) return nullptr;
  const expr content =
      free ? shared_.any_value() : value(*more, deeper(where, "additionalProperties"), depth + 1);
  expr key = call(string_rule);
  if (!named.empty()) {
    // Without escapes, so that such a name can be told from the named ones by its bytes.
    const expr character =
        choice({code_points(0x20, 0x21), code_points(0x23, 0x5B), code_points(0x5D, 0x10FFFF)});
    std::vector<expr> names;
    for (const auto& member : named) names.push_back(literal(quoted(view(member.key()))));
    const rule_id rule = builder_.declare(where);
    builder_.define_difference(rule,
                               sequence({literal("\""), repeat(character, 0, unbounded), literal("\"")}),
                               choice(std::move(names)));
    key = call(rule);
  }
  return sequence({key, literal(":"), shared_.gap(), content});
}

// An object without named properties whose members are told by patternProperties or propertyNames, or
// counted. Names may repeat, so that at most one member can be demanded.
expr schema_compiler::map(const object& schema, const std::string& where, std::uint32_t depth) {
  const std::uint32_t least = count(schema, "minProperties", 0, 1, where);
  const std::uint32_t most = schema.contains("maxProperties")
                                 ? count(schema, "maxProperties", 0, limits_.members, where)
                                 : unbounded;
  if (least > most) fail(deeper(where, "minProperties"), "is above maxProperties");
  const json::value* more = schema.if_contains("additionalProperties");
  const json::value* patterns = schema.if_contains("patternProperties");
  const json::value* names = schema.if_contains("propertyNames");
  bool none = more != nullptr && more->is_bool() && !more->get_bool();
  expr key = call(string_rule);
  expr content = none || more == nullptr ? shared_.any_value()
                                         : value(*more, deeper(where, "additionalProperties"), depth + 1);
  if (patterns != nullptr) {
    const std::string at = deeper(where, "patternProperties");
    if (!patterns->is_object() || patterns->get_object().size() != 1 || names != nullptr ||
        (more != nullptr && !none)) {
      fail(at,
           "is supported with one pattern, without properties, required and propertyNames, and with "
           "additionalProperties false or absent");
    }
    const auto& member = *patterns->get_object().begin();
    key = shared_.matching(view(member.key()), deeper(at, view(member.key())));
    content = value(member.value(), deeper(at, view(member.key())), depth + 1);
    none = false;
  } else if (names != nullptr && !none) {
    const std::string at = deeper(where, "propertyNames");
    object text(compile_budget::json());
    text.emplace("type", "string");
    key =
        flat(merge_schemas(std::move(text), flatten_schema(root_, *names, at, depth + 1), at), at, depth + 1);
  }
  std::vector<expr> parts;
  std::vector<bool> required;
  const expr member = sequence({key, literal(":"), shared_.gap(), content});
  for (std::uint32_t i = 0; !none && i < (most == unbounded ? 1 : most); ++i) {
    parts.push_back(member);
    required.push_back(i < least);
  }
  if (none && least > 0) fail(deeper(where, "minProperties"), "is above the properties that there may be");
  const expr inside = list(std::move(parts), std::move(required), sequence({literal(","), shared_.gap()}),
                           most == unbounded && !none);
  return call(
      builder_.add(where, sequence({literal("{"), shared_.gap(), inside, shared_.gap(), literal("}")})));
}

// Counts of members beside named properties are served where these keep them anyway.
void schema_compiler::check_member_counts(const object& schema, std::size_t named, std::size_t wanted,
                                          bool open, const std::string& where) const {
  const std::uint32_t least = count(schema, "minProperties", 0, limits_.properties, where);
  const std::uint32_t most = count(schema, "maxProperties", unbounded, unbounded - 1, where);
  if (least > wanted)
    fail(deeper(where, "minProperties"),
         "is supported beside properties only up to the number of required ones");
  if (most != unbounded && (open || named > most))
    fail(deeper(where, "maxProperties"),
         "is supported beside properties only where no more are named or allowed");
  for (const char* name : {"patternProperties", "propertyNames"}) {
    if (schema.contains(name)) fail(deeper(where, name), "is not supported beside properties or required");
  }
}

expr schema_compiler::members(const object& schema, const std::string& where, std::uint32_t depth) {
  const json::object named = named_properties(schema, where);
  if (strict_) check_strict(schema, named, where);
  const bool told = schema.contains("patternProperties") || schema.contains("propertyNames") ||
                    schema.contains("minProperties") || schema.contains("maxProperties");
  if (named.empty() && told) return map(schema, where, depth);
  std::vector<expr> parts;
  std::vector<bool> required;
  const name_set wanted = names_of(schema.if_contains("required"), deeper(where, "required"));
  for (const auto& member : named) {
    const std::string at = deeper(deeper(where, "properties"), view(member.key()));
    parts.push_back(sequence(
        {literal(quoted(view(member.key())) + ":"), shared_.gap(), value(member.value(), at, depth + 1)}));
    required.push_back(wanted.contains(view(member.key())));
  }
  bool open = false;
  if (expr further = further_member(schema, named, where, depth)) {
    parts.push_back(std::move(further));
    required.push_back(false);
    open = true;
  }
  check_member_counts(schema, named.size(), wanted.size(), open, where);
  const expr comma = sequence({literal(","), shared_.gap()});
  const expr inside = list(std::move(parts), std::move(required), comma, open);
  return call(
      builder_.add(where, sequence({literal("{"), shared_.gap(), inside, shared_.gap(), literal("}")})));
}

}  // namespace orcd::engine::grammar
