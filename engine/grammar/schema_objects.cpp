// Objects: named properties in their order, then further members.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema_compiler.hpp"
#include "engine/grammar/schema_merge.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

json::object schema_compiler::named_properties(const object& schema, const std::string& where) const {
  json::object out;
  if (const json::value* named = schema.if_contains("properties")) {
    if (!named->is_object()) fail(deeper(where, "properties"), "must be an object");
    out = named->get_object();
  }
  const json::value* more = schema.if_contains("additionalProperties");
  if (const json::value* required = schema.if_contains("required")) {
    const std::string at = deeper(where, "required");
    if (!required->is_array()) fail(at, "must be a list of names");
    for (const json::value& name : required->get_array()) {
      if (!name.is_string()) fail(at, "must be a list of names");
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

// What strict mode demands of every object, so that all of it is generated. Source: OpenAI structured
// outputs.
void schema_compiler::check_strict(const object& schema, const json::object& named,
                                   const std::string& where) const {
  const json::value* more = schema.if_contains("additionalProperties");
  if (more == nullptr || !more->is_bool() || more->get_bool()) {
    fail(deeper(where, "additionalProperties"), "must be false in strict mode");
  }
  const json::value* required = schema.if_contains("required");
  for (const auto& member : named) {
    if (required == nullptr || std::find(required->get_array().begin(), required->get_array().end(),
                                         json::value(member.key())) == required->get_array().end()) {
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
    // Spelled without escapes, so that a name can be told from the named ones by its bytes.
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

expr schema_compiler::members(const object& schema, const std::string& where, std::uint32_t depth) {
  const json::object named = named_properties(schema, where);
  if (strict_) check_strict(schema, named, where);
  std::vector<expr> parts;
  std::vector<bool> required;
  const json::value* wanted = schema.if_contains("required");
  for (const auto& member : named) {
    const std::string at = deeper(deeper(where, "properties"), view(member.key()));
    parts.push_back(sequence(
        {literal(quoted(view(member.key())) + ":"), shared_.gap(), value(member.value(), at, depth + 1)}));
    required.push_back(wanted != nullptr &&
                       std::find(wanted->get_array().begin(), wanted->get_array().end(),
                                 json::value(member.key())) != wanted->get_array().end());
  }
  bool open = false;
  if (expr further = further_member(schema, named, where, depth)) {
    parts.push_back(std::move(further));
    required.push_back(false);
    open = true;
  }
  const expr comma = sequence({literal(","), shared_.gap()});
  const expr inside = list(std::move(parts), std::move(required), comma, open);
  return call(
      builder_.add(where, sequence({literal("{"), shared_.gap(), inside, shared_.gap(), literal("}")})));
}

}  // namespace orcd::engine::grammar
