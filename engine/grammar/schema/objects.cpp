// Compiles objects: named properties in their order, then further members.
#include <algorithm>
#include <utility>
#include <vector>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/compiler.hpp"
#include "engine/grammar/schema/flatten.hpp"
#include "engine/grammar/schema/merge.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

// The patterns of patternProperties; null where there are none.
const json::object* patterns_of(const json::object& schema, const std::string& where) {
  const json::value* found = schema.if_contains("patternProperties");
  if (found == nullptr) return nullptr;
  if (!found->is_object()) fail(deeper(where, "patternProperties"), "must be an object");
  return found->get_object().empty() ? nullptr : &found->get_object();
}

bool is_excluded(const json::value& property) {
  return property.is_bool() && !property.get_bool();
}

}  // namespace

bool schema_compiler::add_patterns(json::key_value_pair& property, const json::object& patterns,
                                   const std::string& where) {
  bool matched = false;
  for (const auto& pattern : patterns) {
    const std::string at = deeper(deeper(where, "patternProperties"), view(pattern.key()));
    const rule_id rule = shared_.matching(view(pattern.key()), at)->rule;
    if (!builder_.matches(rule, shared_.form().text(view(property.key())))) continue;
    matched = true;
    property.value() = object_of("allOf", list_of(property.value(), pattern.value()));
  }
  return matched;
}

// What is said of each property that is named in `properties` or `required`, patternProperties included.
json::object schema_compiler::named_properties(const object& schema, const std::string& where) {
  json::object out(compile_budget::json());
  if (const json::value* named = schema.if_contains("properties")) {
    if (!named->is_object()) fail(deeper(where, "properties"), "must be an object");
    out = copied(named->get_object());
  }
  const std::size_t described = out.size();
  if (const json::value* required = schema.if_contains("required")) {
    (void)names_of(required, deeper(where, "required"));
    for (const json::value& name : required->get_array()) {
      if (!out.contains(name.get_string())) out.emplace(name.get_string(), true);
    }
  }
  if (out.size() > limits_.properties) {
    fail(where, "an object has " + std::to_string(out.size()) + " properties, the limit is " +
                    std::to_string(limits_.properties));
  }
  const json::object* patterns = patterns_of(schema, where);
  const json::value* more = schema.if_contains("additionalProperties");
  std::size_t i = 0;
  for (auto& member : out) {
    const bool matched = patterns != nullptr && add_patterns(member, *patterns, where);
    if (i++ >= described && !matched && more != nullptr) member.value() = *more;
  }
  return out;
}

// Checks what strict mode demands of every object, which makes all of its properties be generated and no
// other. Where a schema names properties and says nothing of either, that is what it gets. Source: OpenAI
// structured outputs.
void schema_compiler::check_strict(const object& schema, const json::object& named,
                                   const std::string& where) const {
  const json::value* more = schema.if_contains("additionalProperties");
  const bool closed = more == nullptr ? !named.empty() : more->is_bool() && !more->get_bool();
  if (!closed) {
    fail(deeper(where, "additionalProperties"), "must be false in strict mode");
  }
  const name_set required = required_names(schema, named, where);
  for (const auto& member : named) {
    if (!required.contains(view(member.key()))) {
      fail(deeper(deeper(where, "properties"), view(member.key())),
           "must be listed in required in strict mode");
    }
  }
}

name_set schema_compiler::required_names(const object& schema, const json::object& named,
                                         const std::string& where) const {
  const json::value* required = schema.if_contains("required");
  if (!strict_ || required != nullptr) return names_of(required, deeper(where, "required"));
  name_set out;
  for (const auto& member : named) out.insert(view(member.key()));
  return out;
}

// Members that patternProperties and additionalProperties allow beside the named ones; null where there are
// none. A name that several patterns match is left out.
expr schema_compiler::further_member(const object& schema, const json::object& named,
                                     const std::string& where, std::uint32_t depth) {
  const json::object* patterns = patterns_of(schema, where);
  const json::value* more = schema.if_contains("additionalProperties");
  std::vector<expr> names, out;
  for (const auto& member : named) names.push_back(shared_.form().name(view(member.key())));
  if (patterns != nullptr) add_pattern_members(*patterns, names, where, depth, out);
  const bool excluding =
      std::all_of(named.begin(), named.end(), [](const auto& member) { return is_excluded(member.value()); });
  const bool free = excluding && patterns == nullptr && more == nullptr;
  if (free || (more != nullptr && !is_excluded(*more))) {
    const expr content =
        free ? shared_.any_value() : part(*more, deeper(where, "additionalProperties"), depth + 1, false);
    if (patterns != nullptr) {
      for (const auto& pattern : *patterns)
        names.push_back(shared_.form().name_matching(view(pattern.key()), where));
    }
    expr key = shared_.any_name();
    if (!names.empty()) {
      const rule_id rule = builder_.declare(where);
      builder_.define_common(rule, {shared_.form().plain_name()}, names);
      key = call(rule);
    }
    out.push_back(sequence({key, literal(":"), shared_.gap(), content}));
  }
  return out.empty() ? nullptr : choice(std::move(out));
}

void schema_compiler::add_pattern_members(const json::object& patterns, const std::vector<expr>& names,
                                          const std::string& where, std::uint32_t depth,
                                          std::vector<expr>& out) {
  if (patterns.size() > limits_.patterns)
    fail(deeper(where, "patternProperties"),
         "has more than " + std::to_string(limits_.patterns) + " patterns");
  for (const auto& member : patterns) {
    const std::string at = deeper(deeper(where, "patternProperties"), view(member.key()));
    const value_form& form = shared_.form();
    expr key = shared_.name_matching(view(member.key()), at);
    if (!names.empty() || patterns.size() > 1) {
      std::vector<expr> others = names;
      for (const auto& other : patterns) {
        if (other.key() != member.key()) others.push_back(form.name_matching(view(other.key()), at));
      }
      const rule_id rule = builder_.declare(at);
      std::vector<expr> all{form.name_matching(view(member.key()), at)};
      if (!form.is_json()) all.push_back(form.plain_name());
      builder_.define_common(rule, all, others);
      key = call(rule);
    }
    const expr content = part(member.value(), at, depth + 1, false);
    out.push_back(sequence({key, literal(":"), shared_.gap(), content}));
  }
}

// An object without named properties whose members are told by patternProperties or propertyNames, or
// counted. Names may repeat, so that at most one member can be demanded.
expr schema_compiler::map(const object& schema, const std::string& where, std::uint32_t depth) {
  const std::uint32_t least = count(schema, "minProperties", 0, limits_.members, where);
  const std::uint32_t most = schema.contains("maxProperties")
                                 ? count(schema, "maxProperties", 0, limits_.members, where)
                                 : unbounded;
  if (least > most) contradict(deeper(where, "minProperties"), "is above maxProperties");
  if (least > 1)
    fail(deeper(where, "minProperties"), "asks for more than one property, whose names are not given");
  const json::value* names = schema.if_contains("propertyNames");
  expr member = further_member(schema, json::object(), where, depth);
  if (names != nullptr && member != nullptr) {
    const std::string at = deeper(where, "propertyNames");
    if (patterns_of(schema, where) != nullptr) fail(at, "is not supported beside patternProperties");
    const json::value* more = schema.if_contains("additionalProperties");
    const expr content = more == nullptr
                             ? shared_.any_value()
                             : part(*more, deeper(where, "additionalProperties"), depth + 1, false);
    object text = object_of("type", json::value("string"));
    expr key = choice({});
    try {
      key = flat(merge_schemas(std::move(text), flatten_schema(root_, *names, at, depth + 1), at), at,
                 depth + 1);
    } catch (const grammar_failure& failure) {
      if (!failure.impossible) throw;
    }
    member = sequence({std::move(key), literal(":"), shared_.gap(), content});
  }
  const bool none = member == nullptr;
  std::vector<expr> parts;
  std::vector<bool> required;
  for (std::uint32_t i = 0; !none && i < (most == unbounded ? 1 : most); ++i) {
    parts.push_back(member);
    required.push_back(i < least);
  }
  if (none && least > 0)
    contradict(deeper(where, "minProperties"), "is above the properties that there may be");
  const expr inside = list(std::move(parts), std::move(required), sequence({literal(","), shared_.gap()}),
                           most == unbounded && !none);
  return call(
      builder_.add(where, sequence({literal("{"), shared_.gap(), inside, shared_.gap(), literal("}")})));
}

expr schema_compiler::counted_members(const object& schema, std::vector<expr> parts,
                                      std::vector<bool> required, bool open, const std::string& where) const {
  std::uint32_t least = count(schema, "minProperties", 0, limits_.properties, where);
  std::uint32_t most = unbounded;
  if (schema.contains("maxProperties")) most = count(schema, "maxProperties", 0, unbounded - 1, where);
  const std::string low = deeper(where, "minProperties"), high = deeper(where, "maxProperties");
  const auto wanted = static_cast<std::uint32_t>(std::count(required.begin(), required.end(), true));
  if (least > most) contradict(low, "is above maxProperties");
  if (wanted > most) contradict(high, "is below the number of required properties");
  if (least > parts.size()) {
    // The names of further members may repeat.
    if (open) fail(low, "asks for more than one property beside the named ones");
    contradict(low, "is above the properties that there may be");
  }
  if (least <= wanted) least = 0;
  if (!open && most >= parts.size()) most = unbounded;
  const std::uint64_t numbers = std::uint64_t{1} + (most == unbounded ? least : most);
  if (numbers > 1 && numbers * parts.size() > limits_.counted)
    fail(least > 0 ? low : high,
         "takes more than " + std::to_string(limits_.counted) + " numbers of properties: there are too many");
  return list(std::move(parts), std::move(required), sequence({literal(","), shared_.gap()}), open, least,
              most);
}

expr schema_compiler::members(const object& schema, const std::string& where, std::uint32_t depth) {
  const json::object named = named_properties(schema, where);
  if (strict_) check_strict(schema, named, where);
  const bool told = schema.contains("propertyNames") || schema.contains("minProperties") ||
                    schema.contains("maxProperties");
  if (named.empty() && told) return map(schema, where, depth);
  std::vector<expr> parts;
  std::vector<bool> required;
  const name_set wanted = required_names(schema, named, where);
  for (const auto& member : named) {
    const std::string at = deeper(deeper(where, "properties"), view(member.key()));
    required.push_back(wanted.contains(view(member.key())));
    parts.push_back(sequence({shared_.form().name(view(member.key())), literal(":"), shared_.gap(),
                              part(member.value(), at, depth + 1, required.back())}));
  }
  bool open = false;
  if (expr further = further_member(schema, named, where, depth)) {
    parts.push_back(std::move(further));
    required.push_back(false);
    open = true;
  }
  if (schema.contains("propertyNames"))
    fail(deeper(where, "propertyNames"), "is not supported beside properties or required");
  const expr inside = counted_members(schema, std::move(parts), std::move(required), open, where);
  return call(
      builder_.add(where, sequence({literal("{"), shared_.gap(), inside, shared_.gap(), literal("}")})));
}

}  // namespace orcd::engine::grammar
