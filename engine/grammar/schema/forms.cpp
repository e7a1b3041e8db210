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

}  // namespace

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
}

void close_unevaluated(json::object& out, const json::object& schema, const std::string& where) {
  constexpr std::pair<const char*, const char*> forms[] = {{"unevaluatedProperties", "additionalProperties"},
                                                           {"unevaluatedItems", "items"}};
  for (const auto& [name, form] : forms) {
    const json::value* found = schema.if_contains(name);
    if (found == nullptr) continue;
    for (const char* other :
         {"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}) {
      if (schema.contains(other) && !(found->is_bool() && found->get_bool()))
        fail(deeper(where, name), std::string("is not supported beside ") + other);
    }
    if (!out.contains(form) && !found->is_bool()) {
      out.emplace(form, json::value(*found, compile_budget::json()));
    } else if (!out.contains(form) && !found->get_bool()) {
      out.emplace(form, false);
    }
    out.erase(name);
  }
}

}  // namespace orcd::engine::grammar
