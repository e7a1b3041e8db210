#include "engine/chat/argument_types.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>

#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine {

namespace {

namespace json = boost::json;

/// The most arguments of a function that are looked at.
constexpr std::size_t arguments_max = 512;

std::string_view view(json::string_view text) {
  return {text.data(), text.size()};
}

value_kinds kind_named(std::string_view type) {
  if (type == "string") return text_kind;
  if (type == "number" || type == "integer") return number_kind;
  if (type == "boolean") return boolean_kind;
  if (type == "null") return null_kind;
  if (type == "array") return array_kind;
  return type == "object" ? object_kind : any_kind;
}

value_kinds kind_of(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null: return null_kind;
    case json::kind::bool_: return boolean_kind;
    case json::kind::string: return text_kind;
    case json::kind::array: return array_kind;
    case json::kind::object: return object_kind;
    default: return number_kind;
  }
}

value_kinds of_types(const json::object& schema) {
  const json::value* type = schema.if_contains("type");
  if (type == nullptr) return any_kind;
  value_kinds out = any_kind;
  if (type->is_string()) out = kind_named(view(type->get_string()));
  if (type->is_array()) {
    out = 0;
    for (const json::value& one : type->get_array())
      out |= one.is_string() ? kind_named(view(one.get_string())) : any_kind;
  }
  const json::value* nullable = schema.if_contains("nullable");
  return nullable != nullptr && *nullable == json::value(true) ? out | null_kind : out;
}

class kind_finder {
 public:
  explicit kind_finder(const json::value& root) : root_(root) {}

  [[nodiscard]] value_kinds of(const json::value& schema) {
    if (!schema.is_object() || steps_ == 0) return any_kind;
    --steps_;
    const json::object& object = schema.get_object();
    value_kinds out = of_types(object);
    if (const auto* value = object.if_contains("const")) out &= kind_of(*value);
    if (const auto* values = object.if_contains("enum")) out &= of_values(*values);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (const auto* parts = object.if_contains(keyword)) out &= of_alternatives(*parts);
    }
    if (const auto* to = object.if_contains("$ref")) out &= of_reference(*to);
    if (const auto* parts = object.if_contains("allOf"); parts != nullptr && parts->is_array()) {
      for (const json::value& part : parts->get_array()) out &= of(part);
    }
    return out == 0 ? any_kind : out;
  }

 private:
  [[nodiscard]] static value_kinds of_values(const json::value& list) {
    if (!list.is_array()) return any_kind;
    value_kinds out = 0;
    for (const json::value& one : list.get_array()) out |= kind_of(one);
    return out;
  }
  [[nodiscard]] value_kinds of_alternatives(const json::value& list) {
    if (!list.is_array()) return any_kind;
    value_kinds out = 0;
    for (const json::value& one : list.get_array()) out |= of(one);
    return out;
  }
  [[nodiscard]] value_kinds of_reference(const json::value& to) {
    if (!to.is_string()) return any_kind;
    try {
      return of(grammar::resolve_reference(root_, view(to.get_string()), "#"));
    } catch (const grammar::grammar_failure&) {
      return any_kind;
    }
  }

  const json::value& root_;
  int steps_ = 16;  ///< subschemas that are looked at
};

}  // namespace

value_kinds kinds_of(const json::value& schema, const json::value& root) {
  return kind_finder(root).of(schema);
}

bool is_open(const json::value& schema) {
  if (!schema.is_object()) return schema.is_bool() && schema.get_bool();
  return std::all_of(schema.get_object().begin(), schema.get_object().end(), [](const auto& member) {
    return grammar::kind_of_keyword(view(member.key())) == grammar::keyword_kind::annotation;
  });
}

std::shared_ptr<const argument_types> argument_types::of(const json::array& tools) {
  auto out = std::make_shared<argument_types>();
  for (const json::value& tool : tools) {
    const json::object& function = tool.at("function").as_object();
    arguments& into = out->functions_[std::string(view(function.at("name").as_string()))];
    const json::value* parameters = function.if_contains("parameters");
    if (parameters == nullptr || !parameters->is_object()) continue;
    const json::value* properties = parameters->get_object().if_contains("properties");
    if (properties == nullptr || !properties->is_object()) continue;
    for (const auto& [name, schema] : properties->get_object()) {
      if (into.size() == arguments_max) break;
      into[std::string(view(name))] = {kinds_of(schema, *parameters), is_open(schema)};
    }
  }
  return out;
}

argument_type argument_types::of(std::string_view function, std::string_view argument) const {
  const auto found = functions_.find(function);
  if (found == functions_.end()) return {};
  const auto type = found->second.find(argument);
  return type == found->second.end() ? argument_type{} : type->second;
}

}  // namespace orcd::engine
