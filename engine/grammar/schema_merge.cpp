#include "engine/grammar/schema_merge.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "engine/grammar/program_builder.hpp"

namespace orcd::engine::grammar {

namespace {

namespace json = boost::json;

constexpr auto constraints = std::to_array<std::string_view>({"$ref",
                                                              "allOf",
                                                              "anyOf",
                                                              "oneOf",
                                                              "type",
                                                              "enum",
                                                              "const",
                                                              "properties",
                                                              "required",
                                                              "items",
                                                              "minItems",
                                                              "maxItems",
                                                              "pattern",
                                                              "format",
                                                              "additionalProperties",
                                                              "minimum",
                                                              "maximum",
                                                              "minLength",
                                                              "maxLength",
                                                              "prefixItems",
                                                              "exclusiveMinimum",
                                                              "exclusiveMaximum",
                                                              "multipleOf",
                                                              "uniqueItems"});
constexpr auto annotations = std::to_array<std::string_view>(
    {"title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions",
     "deprecated", "readOnly", "writeOnly", "discriminator", "contentMediaType", "contentEncoding"});

template <class Names>
bool contains(const Names& names, std::string_view name) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

thread_local merge_budget* current_budget = nullptr;

std::uint64_t nodes_in(const json::value& value) {
  std::uint64_t nodes = 1;
  if (const json::array* list = value.if_array()) {
    for (const json::value& item : *list) nodes += nodes_in(item);
  } else if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) nodes += nodes_in(member.value());
  }
  return nodes;
}

json::array as_list(const json::value& value) {
  merge_budget::take(value.is_array() ? value.get_array().size() : 1, "#");
  return value.is_array() ? value.get_array() : json::array{value};
}

bool has(const json::array& list, const json::value& value) {
  merge_budget::take(list.size(), "#");
  return std::find(list.begin(), list.end(), value) != list.end();
}

// Of two lists of types; an integer is a number.
json::value common_types(const json::value& a, const json::value& b, const std::string& where) {
  json::array out;
  const json::array left = as_list(a), right = as_list(b);
  for (const json::value& type : left) {
    if (has(right, type) || (type == "integer" && has(right, "number"))) out.push_back(type);
    if (type == "number" && has(right, "integer") && !has(left, "integer")) out.push_back("integer");
  }
  if (out.empty()) fail(where, "the types of the combined schemas exclude each other");
  return out;
}

json::value common_values(const json::value& a, const json::value& b, const std::string& where) {
  json::array out;
  const json::array right = as_list(b);
  for (const json::value& value : as_list(a)) {
    if (has(right, value)) out.push_back(value);
  }
  if (out.empty()) fail(where, "the values of the combined schemas exclude each other");
  return out;
}

json::value both_of(const json::value& a, const json::value& b) {
  return json::object{{"allOf", json::array{a, b}}};
}

bool is_closed(const json::object& schema) {
  const json::value* more = schema.if_contains("additionalProperties");
  return more != nullptr && more->is_bool() && !more->get_bool();
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
  return required != nullptr && required->is_array() && has(required->get_array(), json::string(name));
}

// What `closed` does not name, `other` may not have.
void drop_foreign(json::object& other, const json::object& closed, const std::string& where) {
  if (!is_closed(closed) || properties_of(other) == nullptr) return;
  json::object kept;
  for (const auto& member : *properties_of(other)) {
    if (has_property(closed, member.key())) {
      kept.emplace(member.key(), member.value());
    } else if (is_required(other, member.key())) {
      fail(where, "a combined schema requires \"" + std::string(member.key()) +
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
  merge_budget::take(nodes_in(a) + nodes_in(b), where);
  if (a == b) return a;
  if (name == "type") return common_types(a, b, where);
  if (name == "enum") return common_values(a, b, where);
  if (name == "items") return both_of(a, b);
  if (name == "additionalProperties") {
    if (a.is_bool()) return a.get_bool() ? b : a;
    if (b.is_bool()) return b.get_bool() ? a : b;
    return both_of(a, b);
  }
  if (name == "required" && a.is_array() && b.is_array()) {
    json::array out = a.get_array();
    for (const json::value& item : b.get_array()) {
      if (!has(out, item)) out.push_back(item);
    }
    return out;
  }
  if (name == "properties" && a.is_object() && b.is_object()) {
    json::object out = a.get_object();
    for (const auto& member : b.get_object()) {
      const auto [at, is_new] = out.emplace(member.key(), member.value());
      if (!is_new) at->value() = both_of(json::value(at->value()), member.value());
    }
    return out;
  }
  if (name == "minimum" || name == "minLength" || name == "minItems" || name == "exclusiveMinimum") {
    return number_of(a, where) >= number_of(b, where) ? a : b;
  }
  if (name == "maximum" || name == "maxLength" || name == "maxItems" || name == "exclusiveMaximum") {
    return number_of(a, where) <= number_of(b, where) ? a : b;
  }
  fail(where, "\"" + std::string(name) + "\" occurs twice in combined schemas and cannot be merged");
}

json::array values_of(const json::value& schema) {
  const json::object* o = schema.if_object();
  if (o == nullptr) return {};
  if (const json::value* value = o->if_contains("const")) return {*value};
  const json::value* list = o->if_contains("enum");
  if (list != nullptr) merge_budget::take(nodes_in(*list), "#");
  return list != nullptr && list->is_array() ? list->get_array() : json::array{};
}

bool no_common_value(const json::value& a, const json::value& b) {
  const json::array left = values_of(a), right = values_of(b);
  return !left.empty() && !right.empty() &&
         std::none_of(left.begin(), left.end(), [&](const json::value& v) { return has(right, v); });
}

bool no_common_type(const json::object& a, const json::object& b) {
  const json::value* left = a.if_contains("type");
  const json::value* right = b.if_contains("type");
  if (left == nullptr || right == nullptr) return false;
  const json::array others = as_list(*right);
  for (const json::value& type : as_list(*left)) {
    if (has(others, type)) return false;
    if (type == "integer" && has(others, "number")) return false;
    if (type == "number" && has(others, "integer")) return false;
  }
  return true;
}

}  // namespace

void fail(const std::string& where, std::string what) {
  throw grammar_failure{where, std::move(what)};
}

keyword_kind kind_of_keyword(std::string_view name) noexcept {
  if (contains(constraints, name)) return keyword_kind::constraint;
  if (contains(annotations, name) || name.starts_with("x-")) return keyword_kind::annotation;
  return keyword_kind::unsupported;
}

std::string deeper(const std::string& where, std::string_view step) {
  std::string out = where + '/';
  for (const char c : step.substr(0, 128)) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out += c;
    }
  }
  return out;
}

const json::value& resolve_reference(const json::value& root, std::string_view reference,
                                     const std::string& where) {
  if (reference == "#") return root;
  if (!reference.starts_with("#/") || reference.find('%') != std::string_view::npos) {
    fail(where, "only references into the same schema are supported (\"#\" or \"#/...\")");
  }
  boost::system::error_code ec;
  const json::value* found = root.find_pointer(reference.substr(1), ec);
  if (found == nullptr || ec) fail(where, "the reference names nothing in the schema");
  return *found;
}

merge_budget::merge_budget() noexcept : before_(current_budget) {
  current_budget = this;
}
merge_budget::~merge_budget() {
  current_budget = before_;
}
void merge_budget::take(std::uint64_t steps, const std::string& where) {
  if (current_budget == nullptr) return;
  if (steps > current_budget->left_) fail(where, "the schema is too large when its parts are combined");
  current_budget->left_ -= steps;
}

json::object merge_schemas(json::object a, const json::object& b, const std::string& where) {
  json::object right = b;
  drop_foreign(a, b, where);
  drop_foreign(right, a, where);
  for (auto& member : right) {
    const auto [at, is_new] = a.emplace(member.key(), member.value());
    if (is_new) continue;
    at->value() = merged(view(member.key()), json::value(at->value()), member.value(), where);
  }
  return a;
}

json::object flatten_schema(const json::value& root, const json::value& schema, const std::string& where,
                            std::uint32_t depth) {
  if (depth > schema_depth_max) {
    fail(where, "the schema is nested more than " + std::to_string(schema_depth_max) + " deep");
  }
  if (schema.is_bool()) {
    if (schema.get_bool()) return {};
    fail(where, "a combined schema is false");
  }
  if (!schema.is_object()) fail(where, "a schema is an object or a boolean");
  merge_budget::take(10 + nodes_in(schema), where);
  json::object out;
  for (const auto& member : schema.get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const keyword_kind kind = kind_of_keyword(name);
    if (kind == keyword_kind::unsupported) fail(deeper(where, name), "this keyword is not supported");
    if (kind == keyword_kind::annotation || name == "$ref" || name == "allOf") continue;
    out.emplace(member.key(), member.value());
  }
  if (const json::value* reference = schema.get_object().if_contains("$ref")) {
    const std::string at = deeper(where, "$ref");
    if (!reference->is_string()) fail(at, "a reference is a string");
    const json::value& target = resolve_reference(root, view(reference->get_string()), at);
    out = merge_schemas(std::move(out),
                        flatten_schema(root, target, std::string(reference->get_string()), depth + 1), where);
  }
  if (const json::value* all = schema.get_object().if_contains("allOf")) {
    const std::string at = deeper(where, "allOf");
    if (!all->is_array() || all->get_array().empty()) fail(at, "allOf is a list of schemas");
    std::size_t i = 0;
    for (const json::value& part : all->get_array()) {
      const std::string here = deeper(at, std::to_string(i++));
      out = merge_schemas(std::move(out), flatten_schema(root, part, here, depth + 1), here);
    }
  }
  return out;
}

bool excludes(const json::object& made, const json::object& other) {
  merge_budget::take(10, "#");
  if (no_common_type(made, other) || no_common_value(made, other)) return true;
  const auto is_object = [](const json::object& schema) {
    const json::value* type = schema.if_contains("type");
    return (type != nullptr && *type == "object") || (type == nullptr && schema.contains("properties"));
  };
  if (!is_object(made) || !is_object(other)) return false;
  const json::value* more = made.if_contains("additionalProperties");
  const bool only_named = more == nullptr ? properties_of(made) != nullptr : is_closed(made);
  const json::value* required = other.if_contains("required");
  if (only_named && required != nullptr && required->is_array()) {
    for (const json::value& name : required->get_array()) {
      if (name.is_string() && !has_property(made, name.get_string()) &&
          !is_required(made, name.get_string())) {
        return true;
      }
    }
  }
  const json::value* certain = made.if_contains("required");
  if (properties_of(made) == nullptr || certain == nullptr || !certain->is_array()) return false;
  for (const json::value& name : certain->get_array()) {
    const json::value* own = name.is_string() ? properties_of(made)->if_contains(name.get_string()) : nullptr;
    if (own == nullptr) continue;
    if (!has_property(other, name.get_string())) {
      if (is_closed(other)) return true;
      continue;
    }
    if (no_common_value(*own, properties_of(other)->at(name.get_string()))) return true;
  }
  return false;
}

}  // namespace orcd::engine::grammar
