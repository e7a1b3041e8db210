// Forms of older drafts and of OpenAPI, and items beside prefixItems.

#include <algorithm>
#include <utility>

#include "engine/grammar/schema/merge.hpp"

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

void refuse_crossed_items(const json::object& a, const json::object& b, const std::string& where) {
  if (a.contains("prefixItems") == b.contains("prefixItems")) return;
  if ((a.contains("prefixItems") ? b : a).contains("items"))
    fail(where, "\"items\" and \"prefixItems\" of different schemas cannot be merged");
}

}  // namespace orcd::engine::grammar
