#include "engine/grammar/schema/merge.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

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
                                                              "nullable",
                                                              "additionalItems",
                                                              "patternProperties",
                                                              "propertyNames",
                                                              "minProperties",
                                                              "maxProperties",
                                                              "uniqueItems",
                                                              "dependentRequired"});
constexpr auto annotations = std::to_array<std::string_view>(
    {"title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions",
     "deprecated", "readOnly", "writeOnly", "discriminator", "contentMediaType", "contentEncoding"});

template <class Names>
bool contains(const Names& names, std::string_view name) noexcept {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The steps that visiting all of a value takes.
std::uint64_t size_of(const json::value& value) {
  constexpr std::size_t bytes_a_step = 64;
  std::uint64_t out = 1;
  if (const json::string* text = value.if_string()) {
    out += text->size() / bytes_a_step;
  } else if (const json::array* list = value.if_array()) {
    for (const json::value& item : *list) out += size_of(item);
  } else if (const json::object* object = value.if_object()) {
    for (const auto& member : *object) out += size_of(member.value()) + member.key().size() / bytes_a_step;
  }
  return out;
}

std::span<const json::value> as_list(const json::value& value) {
  if (!value.is_array()) return {&value, 1};
  return {value.get_array().data(), value.get_array().size()};
}

bool has(std::span<const json::value> list, const json::value& value) {
  return std::any_of(list.begin(), list.end(),
                     [&](const json::value& item) { return same_value(item, value); });
}

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
  if (out.empty()) fail(where, "the types of the combined schemas exclude each other");
  return out;
}

json::value common_values(const json::value& a, const json::value& b, const std::string& where) {
  json::array out(compile_budget::json());
  const auto right = as_list(b);
  for (const json::value& value : as_list(a)) {
    if (has(right, value)) out.push_back(value);
  }
  if (out.empty()) fail(where, "the values of the combined schemas exclude each other");
  return out;
}

json::value both_of(const json::value& a, const json::value& b) {
  json::array both(compile_budget::json());
  both.push_back(a);
  both.push_back(b);
  json::object out(compile_budget::json());
  out.emplace("allOf", std::move(both));
  return out;
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

// Removes from `other` the properties that `closed` does not allow.
void drop_foreign(json::object& other, const json::object& closed, const std::string& where) {
  if (properties_of(other) == nullptr) return;
  const json::value* more = closed.if_contains("additionalProperties");
  if (closed.contains("patternProperties") || (more != nullptr && more->is_object())) {
    for (const auto& member : *properties_of(other)) {
      if (has_property(closed, member.key())) continue;
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
      fail(where, "a combined schema requires \"" + shown(view(member.key())) +
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
  if (name == "items") return both_of(a, b);
  if (name == "additionalProperties") {
    if (a.is_bool()) return with_budget(a.get_bool() ? b : a);
    if (b.is_bool()) return with_budget(b.get_bool() ? a : b);
    return both_of(a, b);
  }
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
      if (!is_new) at->value() = both_of(at->value(), member.value());
    }
    return out;
  }
  if (name == "minimum" || name == "minLength" || name == "minItems" || name == "exclusiveMinimum" ||
      name == "minProperties") {
    return with_budget(number_of(a, where) >= number_of(b, where) ? a : b);
  }
  if (name == "maximum" || name == "maxLength" || name == "maxItems" || name == "exclusiveMaximum" ||
      name == "maxProperties") {
    return with_budget(number_of(a, where) <= number_of(b, where) ? a : b);
  }
  fail(where, "\"" + std::string(name) + "\" occurs twice in combined schemas and cannot be merged");
}

// The values of enum or const; empty where a schema has neither.
std::span<const json::value> values_of(const json::object& schema) {
  if (const json::value* value = schema.if_contains("const")) return {value, 1};
  const json::value* list = schema.if_contains("enum");
  return list != nullptr && list->is_array() ? as_list(*list) : std::span<const json::value>();
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

}  // namespace

void fail(const std::string& where, std::string what) {
  throw grammar_failure{where, std::move(what)};
}

// Written here because Boost.JSON's own comparison copies the members of objects.
bool same_value(const json::value& a, const json::value& b) {
  compile_budget::work(1);
  if (a.is_array() && b.is_array()) {
    const json::array &left = a.get_array(), &right = b.get_array();
    return std::equal(left.begin(), left.end(), right.begin(), right.end(), same_value);
  }
  if (a.is_object() && b.is_object()) {
    const json::object &left = a.get_object(), &right = b.get_object();
    return left.size() == right.size() && std::all_of(left.begin(), left.end(), [&](const auto& member) {
             const json::value* other = right.if_contains(member.key());
             return other != nullptr && same_value(member.value(), *other);
           });
  }
  if (a.is_structured() || b.is_structured()) return false;
  if (a.is_string()) compile_budget::work(a.get_string().size() / 1'024);
  return a == b;
}

keyword_kind kind_of_keyword(std::string_view name) noexcept {
  if (contains(constraints, name)) return keyword_kind::constraint;
  if (contains(annotations, name) || name.starts_with("x-")) return keyword_kind::annotation;
  return keyword_kind::unsupported;
}

std::string deeper(const std::string& where, std::string_view step) {
  constexpr std::string_view cut = "/...";
  if (where.size() > path_bytes_max) return where.ends_with(cut) ? where : where + std::string(cut);
  compile_budget::work(8 + where.size() / 32);
  std::string out = where + '/';
  for (const char c : step.substr(0, path_step_bytes_max)) {
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

name_set names_of(const json::value* required, const std::string& where) {
  name_set out;
  if (required == nullptr) return out;
  const json::array* list = required->if_array();
  if (list == nullptr) fail(where, "must be a list of names");
  for (const json::value& name : *list) {
    if (!name.is_string()) fail(where, "must be a list of names");
    compile_budget::work(1 + name.get_string().size() / 64);
    out.insert(view(name.get_string()));
  }
  return out;
}

const json::value& resolve_reference(const json::value& root, std::string_view reference,
                                     const std::string& where) {
  compile_budget::work(4 + reference.size() / 6);
  if (reference == "#") return root;
  if (!reference.starts_with("#/") || reference.find('%') != std::string_view::npos) {
    fail(where, "only references into the same schema are supported (\"#\" or \"#/...\")");
  }
  boost::system::error_code ec;
  const json::value* found = root.find_pointer(reference.substr(1), ec);
  if (found == nullptr || ec) fail(where, "the reference names nothing in the schema");
  return *found;
}

json::object merge_schemas(json::object a, const json::object& b, const std::string& where) {
  json::object right = copied(b);
  refuse_crossed_items(a, b, where);
  drop_foreign(a, b, where);
  drop_foreign(right, a, where);
  for (auto& member : right) {
    const auto [at, is_new] = a.emplace(member.key(), member.value());
    if (is_new) continue;
    at->value() = merged(view(member.key()), at->value(), member.value(), where);
  }
  return a;
}

json::object flatten_schema(const json::value& root, const json::value& schema, const std::string& where,
                            std::uint32_t depth) {
  if (depth > schema_depth_max) {
    fail(where, "the schema is nested more than " + std::to_string(schema_depth_max) + " deep");
  }
  const compile_budget::place here(where);
  if (schema.is_bool()) {
    if (schema.get_bool()) return json::object(compile_budget::json());
    fail(where, "a combined schema is false");
  }
  if (!schema.is_object()) fail(where, "a schema is an object or a boolean");
  compile_budget::work(10 + size_of(schema));
  json::object out(compile_budget::json());
  for (const auto& member : schema.get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const keyword_kind kind = kind_of_keyword(name);
    if (kind == keyword_kind::unsupported) fail(deeper(where, name), "this keyword is not supported");
    if (kind == keyword_kind::annotation || name == "$ref" || name == "allOf") continue;
    out.emplace(member.key(), member.value());
  }
  modernize(out, where);
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
  return out;
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
  const bool branches =
      made.contains("anyOf") || made.contains("oneOf") || made.contains("dependentRequired");
  const bool only_named =
      more == nullptr ? properties_of(made) != nullptr && !branches && !made.contains("patternProperties")
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
