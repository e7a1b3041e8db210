#include "engine/grammar/schema/forms.hpp"

#include <algorithm>
#include <utility>

#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine::grammar {

namespace json = boost::json;

namespace {

bool lists_null(const json::value& type) {
  const auto is_null = [](const json::value& name) {
    return name.is_string() && name.get_string() == "null";
  };
  if (!type.is_array()) return is_null(type);
  return std::any_of(type.get_array().begin(), type.get_array().end(), is_null);
}

// Draft 4's exclusive bounds, which say of the others whether they are exclusive.
void modernize_bounds(json::object& schema) {
  for (const auto& [flag, bound] :
       {std::pair("exclusiveMinimum", "minimum"), {"exclusiveMaximum", "maximum"}}) {
    json::value* exclusive = schema.if_contains(flag);
    if (exclusive == nullptr || !exclusive->is_bool()) continue;
    const bool is_exclusive = exclusive->get_bool();
    schema.erase(flag);
    const json::value* limit = schema.if_contains(bound);
    if (!is_exclusive || limit == nullptr) continue;
    json::value kept = copied(*limit);
    schema.erase(bound);
    schema.emplace(flag, std::move(kept));
  }
}

// Says how many items must be valid under `contains`, without which its bounds say nothing.
void modernize_contains(json::object& schema) {
  const json::value* least = schema.if_contains("minContains");
  const bool none_asked = least != nullptr && least->is_number() && least->to_number<double>() == 0;
  if (none_asked && !schema.contains("maxContains")) schema.erase("contains");
  if (!schema.contains("contains")) {
    schema.erase("minContains");
    schema.erase("maxContains");
  } else if (least == nullptr) {
    schema.emplace("minContains", 1);
  }
}

}  // namespace

// Until draft 7 a dependency was a list of names or a schema.
void modernize_dependencies(json::object& schema, const std::string& where) {
  const json::value* asked = schema.if_contains("dependencies");
  if (asked == nullptr) return;
  if (!asked->is_object()) fail(deeper(where, "dependencies"), "must be an object");
  json::object names(compile_budget::json()), schemas(compile_budget::json());
  for (const auto& member : asked->get_object())
    (member.value().is_array() ? names : schemas).emplace(member.key(), member.value());
  schema.erase("dependencies");
  for (const auto& [keyword, made] :
       {std::pair("dependentRequired", &names), {"dependentSchemas", &schemas}}) {
    if (made->empty()) continue;
    if (schema.contains(keyword))
      fail(deeper(where, "dependencies"), std::string("is not supported beside ") + keyword);
    schema.emplace(keyword, std::move(*made));
  }
}

void modernize(json::object& schema, const std::string& where) {
  if (const json::value* nullable = schema.if_contains("nullable")) {
    if (!nullable->is_bool()) fail(deeper(where, "nullable"), "must be true or false");
    // Without a type it says nothing (OpenAPI 3.0.3).
    json::value* type = schema.if_contains("type");
    if (nullable->get_bool() && type != nullptr && !lists_null(*type)) {
      json::array types(compile_budget::json());
      if (type->is_array()) {
        for (const json::value& name : type->get_array()) types.push_back(name);
      } else {
        types.push_back(*type);
      }
      types.push_back("null");
      *type = std::move(types);
    }
    schema.erase("nullable");
  }
  const json::value* items = schema.if_contains("items");
  if (items != nullptr && items->is_array()) {
    if (schema.contains("prefixItems")) fail(deeper(where, "items"), "must be one schema beside prefixItems");
    json::value first = json::value(*items, compile_budget::json());
    schema.erase("items");
    schema.emplace("prefixItems", std::move(first));
    if (const json::value* rest = schema.if_contains("additionalItems")) {
      json::value more = json::value(*rest, compile_budget::json());
      schema.emplace("items", std::move(more));
    }
  }
  // Without a list in `items` it says nothing.
  schema.erase("additionalItems");
  modernize_bounds(schema);
  modernize_dependencies(schema, where);
  modernize_contains(schema);
}

void close_unevaluated(json::object& out, const char* keyword, const json::value& asked) {
  const bool of_items = std::string_view(keyword) == "unevaluatedItems";
  const char* form = of_items ? "items" : "additionalProperties";
  if (out.contains(form) || (asked.is_bool() && asked.get_bool())) return;
  const json::value* contained = of_items ? out.if_contains("contains") : nullptr;
  // Items that are valid under `contains` are evaluated by it.
  if (contained == nullptr) {
    out.emplace(form, copied(asked));
  } else if (asked.is_bool()) {
    json::value kept = copied(*contained);
    out.emplace(form, std::move(kept));
  } else {
    json::object either = object_of("anyOf", list_of(copied(*contained), copied(asked)));
    out.emplace(form, std::move(either));
  }
}

void close_unevaluated(json::object& out, const json::object& schema, const std::string& where) {
  for (const char* keyword : unevaluated) {
    const json::value* found = schema.if_contains(keyword);
    if (found == nullptr) continue;
    for (const char* other : {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else",
                              "dependentSchemas", "dependencies"}) {
      if (schema.contains(other) && !(found->is_bool() && found->get_bool()))
        fail(deeper(where, keyword), std::string("is not supported beside ") + other);
    }
    out.erase(keyword);
    close_unevaluated(out, keyword, *found);
  }
}

}  // namespace orcd::engine::grammar
