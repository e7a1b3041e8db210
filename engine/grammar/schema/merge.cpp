#include "engine/grammar/schema/merge.hpp"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "engine/grammar/json_rules.hpp"
#include "engine/grammar/schema/forms.hpp"
#include "engine/grammar/schema/values.hpp"

namespace orcd::engine::grammar {

namespace {

namespace json = boost::json;

json::value with_budget(const json::value& value) {
  return json::value(value, compile_budget::json());
}

json::value common_types(const json::value& a, const json::value& b, const std::string& where) {
  json::array out(compile_budget::json());
  const auto left = as_list(a), right = as_list(b);
  for (const json::value& type : left) {
    if (has(right, type) || (type == "integer" && has(right, "number"))) out.push_back(type);
    if (type == "number" && has(right, "integer") && !has(left, "integer")) out.push_back("integer");
  }
  if (out.empty()) contradict(where, "the types of the combined schemas exclude each other");
  return out;
}

json::value common_values(const json::value& a, const json::value& b, const std::string& where) {
  json::array out(compile_budget::json());
  const auto right = as_list(b);
  for (const json::value& value : as_list(a)) {
    if (has(right, value)) out.push_back(value);
  }
  if (out.empty()) contradict(where, "the values of the combined schemas exclude each other");
  return out;
}

json::value both_of(const json::value& a, const json::value& b) {
  return object_of("allOf", list_of(with_budget(a), with_budget(b)));
}

/// The values of `a` that are valid under `b`, instead of both; null where that cannot be told.
json::value valid_values(const json::value& a, const json::value& b) {
  if (!a.is_object() || values_of(a.get_object()).empty()) return nullptr;
  json::array kept(compile_budget::json());
  for (const json::value& value : values_of(a.get_object())) {
    const verdict valid = judge(value, b);
    if (valid == verdict::unknown) return nullptr;
    if (valid == verdict::yes) kept.push_back(value);
  }
  if (kept.empty()) return false;
  json::object out = copied(a.get_object());
  out.erase("const");
  out["enum"] = std::move(kept);
  return out;
}

/// What is valid under two schemas that are no part of merging yet, in the simplest form.
json::value joined(const json::value& a, const json::value& b) {
  if (a.is_bool()) return a.get_bool() ? with_budget(b) : a;
  if (b.is_bool()) return b.get_bool() ? with_budget(a) : b;
  if (same_value(a, b)) return with_budget(a);
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (json::value kept = valid_values(*one, *other); !kept.is_null()) return kept;
  }
  return both_of(a, b);
}

json::array concatenated(const json::value& a, const json::value& b) {
  json::array out(compile_budget::json());
  for (const json::value* list : {&a, &b}) {
    for (const json::value& item : as_list(*list)) out.push_back(item);
  }
  return out;
}

/// The least common multiple of two steps.
json::value common_step(const json::value& a, const json::value& b, const std::string& where) {
  const auto left = scaled(a), right = scaled(b);
  constexpr std::int64_t units_most = 1'000'000'000;
  if (!left || !right || left->units <= 0 || right->units <= 0)
    fail(where, "multipleOf of combined schemas must be numbers above 0 of at most 15 digits");
  const std::uint32_t places = std::max(left->places, right->places);
  std::int64_t steps[2];
  std::size_t i = 0;
  for (const auto& one : {*left, *right}) {
    const std::int64_t factor = power_of_ten(places - one.places);
    if (one.units > units_most / factor)
      fail(where, "multipleOf of combined schemas is too large, or too fine");
    steps[i++] = one.units * factor;
  }
  const std::int64_t units = std::lcm(steps[0], steps[1]);
  const std::int64_t unit = power_of_ten(places);
  if (units % unit == 0) return units / unit;
  return static_cast<double>(units) / static_cast<double>(unit);
}

bool is_closed(const json::object& schema) {
  const json::value* more = schema.if_contains("additionalProperties");
  return more != nullptr && more->is_bool() && !more->get_bool() && !schema.contains("patternProperties");
}

const json::object* properties_of(const json::object& schema) {
  const json::value* found = schema.if_contains("properties");
  return found == nullptr ? nullptr : found->if_object();
}

bool has_property(const json::object& schema, json::string_view name) {
  const json::object* properties = properties_of(schema);
  return properties != nullptr && properties->contains(name);
}

bool is_required(const json::object& schema, json::string_view name) {
  const json::value* required = schema.if_contains("required");
  return required != nullptr && required->is_array() && has(as_list(*required), json::string(name));
}

// A name as a message shows it.
std::string shown(std::string_view name) {
  return std::string(name.substr(0, path_step_bytes_max));
}

bool is_false(const json::value& schema) {
  return schema.is_bool() && !schema.get_bool();
}

bool names_properties(const json::object& schema) {
  const json::object* named = properties_of(schema);
  return named != nullptr && std::any_of(named->begin(), named->end(),
                                         [](const auto& member) { return !is_false(member.value()); });
}

bool same_patterns(const json::object& a, const json::object& b) {
  const json::value* left = a.if_contains("patternProperties");
  const json::value* right = b.if_contains("patternProperties");
  return left != nullptr && right != nullptr && same_value(*left, *right);
}

// Removes from `other` the properties that `closed` does not allow.
void drop_foreign(json::object& other, const json::object& closed, const std::string& where) {
  const json::value* more = closed.if_contains("additionalProperties");
  const bool all = more == nullptr || (more->is_bool() && more->get_bool());
  if (!all && other.contains("patternProperties") && !same_patterns(other, closed))
    fail(where, "patternProperties of one schema and additionalProperties of another cannot be merged");
  if (properties_of(other) == nullptr) return;
  if (closed.contains("patternProperties") || (more != nullptr && more->is_object())) {
    for (const auto& member : *properties_of(other)) {
      if (has_property(closed, member.key()) || is_false(member.value())) continue;
      fail(where, "\"" + shown(view(member.key())) +
                      "\" is a property in one combined schema and may be a further one in another");
    }
  }
  if (!is_closed(closed)) return;
  json::object kept(compile_budget::json());
  for (const auto& member : *properties_of(other)) {
    if (has_property(closed, member.key())) {
      kept.emplace(member.key(), member.value());
    } else if (is_required(other, member.key())) {
      contradict(where, "a combined schema requires \"" + shown(view(member.key())) +
                            "\", another forbids it (additionalProperties is false)");
    }
  }
  other["properties"] = std::move(kept);
}

double number_of(const json::value& value, const std::string& where) {
  if (!value.is_number()) fail(where, "a bound is not a number");
  return value.to_number<double>();
}

json::value merged(std::string_view name, const json::value& a, const json::value& b,
                   const std::string& where) {
  compile_budget::work(size_of(a) + size_of(b));
  if (same_value(a, b)) return with_budget(a);
  if (name == "type") return common_types(a, b, where);
  if (name == "enum") return common_values(a, b, where);
  if (name == "items" || name == "additionalProperties") return joined(a, b);
  if (name == "not" || name == "if" || name == "pattern") return concatenated(a, b);
  if (name == "multipleOf") return common_step(a, b, where);
  if (name == "uniqueItems" && a.is_bool() && b.is_bool()) return true;
  if (name == "required" && a.is_array() && b.is_array()) {
    json::array out = copied(a.get_array());
    for (const json::value& item : b.get_array()) {
      if (!has({out.data(), out.size()}, item)) out.push_back(item);
    }
    return out;
  }
  if (name == "properties" && a.is_object() && b.is_object()) {
    json::object out = copied(a.get_object());
    for (const auto& member : b.get_object()) {
      const auto [at, is_new] = out.emplace(member.key(), member.value());
      if (!is_new) at->value() = joined(at->value(), member.value());
    }
    return out;
  }
  if (name == "prefixItems" && a.is_array() && b.is_array()) {
    json::array out(compile_budget::json());
    for (std::size_t i = 0; i < a.get_array().size(); ++i)
      out.push_back(joined(a.get_array()[i], b.get_array()[i]));
    return out;
  }
  if (name == "minimum" || name == "minLength" || name == "minItems" || name == "exclusiveMinimum" ||
      name == "minProperties" || name == "minContains") {
    return with_budget(number_of(a, where) >= number_of(b, where) ? a : b);
  }
  if (name == "maximum" || name == "maxLength" || name == "maxItems" || name == "exclusiveMaximum" ||
      name == "maxProperties" || name == "maxContains") {
    return with_budget(number_of(a, where) <= number_of(b, where) ? a : b);
  }
  fail(where, "\"" + std::string(name) + "\" occurs twice in combined schemas and cannot be merged");
}

bool no_common_value(const json::object& a, const json::object& b) {
  const auto left = values_of(a), right = values_of(b);
  return !left.empty() && !right.empty() &&
         std::none_of(left.begin(), left.end(), [&](const json::value& v) { return has(right, v); });
}

bool no_common_type(const json::object& a, const json::object& b) {
  const json::value* left = a.if_contains("type");
  const json::value* right = b.if_contains("type");
  if (left == nullptr || right == nullptr) return false;
  const auto others = as_list(*right);
  for (const json::value& type : as_list(*left)) {
    if (has(others, type)) return false;
    if (type == "integer" && has(others, "number")) return false;
    if (type == "number" && has(others, "integer")) return false;
  }
  return true;
}

// Gives both schemas as many prefixItems as the longer one has: what `items` says of the others.
void align_items(json::object& a, json::object& b, const std::string& where) {
  std::size_t count = 0;
  for (const json::object* schema : {&a, &b}) {
    const json::value* prefix = schema->if_contains("prefixItems");
    if (prefix == nullptr) continue;
    if (!prefix->is_array()) fail(deeper(where, "prefixItems"), "must be a list of schemas");
    count = std::max(count, prefix->get_array().size());
  }
  for (json::object* schema : {&a, &b}) {
    const json::value* items = schema->if_contains("items");
    if (count == 0 || (items == nullptr && !schema->contains("prefixItems"))) continue;
    if (!schema->contains("prefixItems")) schema->emplace("prefixItems", json::array(compile_budget::json()));
    json::array& prefix = schema->at("prefixItems").get_array();
    items = schema->if_contains("items");  // the emplace moved it
    while (prefix.size() < count) {
      compile_budget::work(items == nullptr ? 1 : size_of(*items));
      prefix.push_back(items == nullptr ? json::value(true) : *items);
    }
  }
}

// A second anyOf or oneOf becomes a choice of its own.
void keep_choices(json::object& a, json::object& b) {
  for (const char* name : {"anyOf", "oneOf"}) {
    json::value* second = b.if_contains(name);
    const json::value* first = a.if_contains(name);
    if (second == nullptr || first == nullptr || !second->is_array() || same_value(*first, *second)) continue;
    json::array list = std::string_view(name) == "anyOf"
                           ? copied(second->get_array())
                           : list_of(json::value(object_of(name, with_budget(*second))));
    b.erase(name);
    if (!b.contains("if")) b.emplace("if", json::array(compile_budget::json()));
    b.at("if").get_array().push_back(std::move(list));
  }
}

// Leaves out values of enum that another keyword forbids; finds a required property that there cannot be.
void settle(json::object& schema, const std::string& where) {
  if (json::value* list = schema.if_contains("enum"); list != nullptr && list->is_array()) {
    json::array kept(compile_budget::json());
    for (const json::value& value : list->get_array()) {
      if (judge(value, schema) != verdict::no) kept.push_back(value);
    }
    if (kept.empty() && !list->get_array().empty())
      contradict(where, "the values of the combined schemas exclude each other");
    *list = std::move(kept);
  }
  const json::object* properties = properties_of(schema);
  const json::value* required = schema.if_contains("required");
  if (properties == nullptr || required == nullptr || !required->is_array()) return;
  for (const json::value& name : required->get_array()) {
    compile_budget::work(2);
    const json::value* found = name.is_string() ? properties->if_contains(name.get_string()) : nullptr;
    if (found != nullptr && is_false(*found))
      contradict(where, "\"" + shown(view(name.get_string())) + "\" is required and excluded");
  }
}

}  // namespace

json::object merge_schemas(json::object a, const json::object& b, const std::string& where) {
  for (const char* keyword : unevaluated) {
    if (b.contains(keyword))
      fail(where, std::string(keyword) + " beside alternatives cannot be merged with another schema");
  }
  json::object right = copied(b);
  align_items(a, right, where);
  keep_choices(a, right);
  drop_foreign(a, b, where);
  drop_foreign(right, a, where);
  for (auto& member : right) {
    const auto [at, is_new] = a.emplace(member.key(), member.value());
    if (is_new) continue;
    at->value() = merged(view(member.key()), at->value(), member.value(), where);
  }
  settle(a, where);
  return a;
}

bool excludes(const json::object& made, const json::object& other) {
  compile_budget::work(10);
  if (no_common_type(made, other) || no_common_value(made, other)) return true;
  const auto is_object = [](const json::object& schema) {
    const json::value* type = schema.if_contains("type");
    return (type != nullptr && *type == "object") || (type == nullptr && schema.contains("properties"));
  };
  if (!is_object(made) || !is_object(other)) return false;
  const json::value* more = made.if_contains("additionalProperties");
  // A branch of made may name properties of its own.
  const bool branches = made.contains("anyOf") || made.contains("oneOf") || made.contains("if");
  const bool only_named = more == nullptr
                              ? names_properties(made) && !branches && !made.contains("patternProperties")
                              : is_closed(made);
  const json::value* required = other.if_contains("required");
  if (only_named && required != nullptr && required->is_array()) {
    for (const json::value& name : required->get_array()) {
      compile_budget::work(4);
      if (name.is_string() && !has_property(made, name.get_string()) &&
          !is_required(made, name.get_string())) {
        return true;
      }
    }
  }
  const json::value* certain = made.if_contains("required");
  if (properties_of(made) == nullptr || certain == nullptr || !certain->is_array()) return false;
  for (const json::value& name : certain->get_array()) {
    compile_budget::work(4);
    const json::value* own = name.is_string() ? properties_of(made)->if_contains(name.get_string()) : nullptr;
    if (own == nullptr) continue;
    if (!has_property(other, name.get_string())) {
      if (is_closed(other)) return true;
      continue;
    }
    const json::object* theirs = properties_of(other)->at(name.get_string()).if_object();
    if (own->is_object() && theirs != nullptr && no_common_value(own->get_object(), *theirs)) return true;
  }
  return false;
}

}  // namespace orcd::engine::grammar
