#include "engine/chat/argument_types.hpp"

#include <algorithm>
#include <array>
#include <boost/json/object.hpp>

#include "engine/grammar/schema/keywords.hpp"

namespace orcd::engine {

namespace {

namespace json = boost::json;

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

/// Finds what schemas of one document allow. Each schema is looked at only so far, and so are all together: a
/// part that many refer to is looked at again for each of them.
class kind_finder {
 public:
  explicit kind_finder(const json::value& root) : root_(root) {}

  [[nodiscard]] value_kinds of(const json::value& schema) {
    steps_ = subschemas_max;
    return visit(schema);
  }

 private:
  static constexpr int subschemas_max = 16;
  static constexpr std::size_t list_max = 256;
  static constexpr std::size_t parts_max = 16'384;

  [[nodiscard]] value_kinds visit(const json::value& schema) {
    if (!schema.is_object() || steps_ == 0) return any_kind;
    --steps_;
    const json::object& object = schema.get_object();
    value_kinds out = of_types(object);
    if (const auto* value = object.if_contains("const")) out &= kind_of(*value);
    if (const auto* values = object.if_contains("enum")) out &= any_of(*values, kind_of);
    for (const char* keyword : {"anyOf", "oneOf"}) {
      if (const auto* parts = object.if_contains(keyword))
        out &= any_of(*parts, [this](const json::value& one) { return visit(one); });
    }
    if (const auto* to = object.if_contains("$ref")) out &= of_reference(*to);
    if (const auto* parts = object.if_contains("allOf"); parts != nullptr && may_list(*parts)) {
      for (const json::value& part : parts->get_array()) out &= visit(part);
    }
    return out == 0 ? any_kind : out;
  }

  [[nodiscard]] value_kinds of_types(const json::object& schema) {
    const json::value* type = schema.if_contains("type");
    if (type == nullptr) return any_kind;
    value_kinds out = any_kind;
    if (type->is_string()) out = kind_named(view(type->get_string()));
    if (type->is_array()) {
      out = any_of(*type, [](const json::value& one) {
        return one.is_string() ? kind_named(view(one.get_string())) : any_kind;
      });
    }
    const json::value* nullable = schema.if_contains("nullable");
    return nullable != nullptr && *nullable == json::value(true) ? out | null_kind : out;
  }

  /// What the elements of a list are together; anything where the list is too long.
  template <class KindOf>
  [[nodiscard]] value_kinds any_of(const json::value& list, const KindOf& kind_of_one) {
    if (!may_list(list)) return any_kind;
    value_kinds out = 0;
    for (const json::value& one : list.get_array()) out |= kind_of_one(one);
    return out;
  }
  [[nodiscard]] bool may_list(const json::value& list) {
    return list.is_array() && list.get_array().size() <= list_max && charge(list.get_array().size());
  }
  [[nodiscard]] value_kinds of_reference(const json::value& to) {
    if (!to.is_string() || !charge(1 + to.get_string().size() / 4)) return any_kind;
    try {
      return visit(grammar::resolve_reference(root_, view(to.get_string()), "#"));
    } catch (const grammar::grammar_failure&) {
      return any_kind;
    }
  }
  [[nodiscard]] bool charge(std::size_t parts) noexcept {
    if (parts > parts_left_) return false;
    parts_left_ -= parts;
    return true;
  }

  const json::value& root_;
  int steps_ = 0;                       ///< subschemas that may still be looked at for this schema
  std::size_t parts_left_ = parts_max;  ///< elements of lists, and references, for all schemas
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

named_arguments arguments_of(const json::value& parameters) {
  named_arguments out;
  const json::object* schema = parameters.if_object();
  const json::value* properties = schema != nullptr ? schema->if_contains("properties") : nullptr;
  if (properties == nullptr || !properties->is_object()) return out;
  kind_finder kinds(parameters);
  for (const auto& [name, property] : properties->get_object()) {
    if (out.size() == arguments_max) break;
    out[std::string(view(name))] = {kinds.of(property), is_open(property)};
  }
  return out;
}

std::shared_ptr<const argument_types> argument_types::of(const json::array& tools) {
  auto out = std::make_shared<argument_types>();
  for (const json::value& tool : tools) {
    const json::object& function = tool.at("function").as_object();
    named_arguments& into = out->functions_[std::string(view(function.at("name").as_string()))];
    if (const json::value* parameters = function.if_contains("parameters")) into = arguments_of(*parameters);
  }
  return out;
}

bool argument_types::has_name_from(std::string_view beginning) const {
  const auto next = functions_.lower_bound(beginning);
  return next != functions_.end() && next->first.starts_with(beginning);
}

bool argument_types::names(std::string_view function, std::string_view argument) const {
  const auto found = functions_.find(function);
  return found != functions_.end() && found->second.contains(argument);
}

argument_type argument_types::of(std::string_view function, std::string_view argument) const {
  const auto found = functions_.find(function);
  if (found == functions_.end()) return {};
  const auto type = found->second.find(argument);
  return type == found->second.end() ? argument_type{} : type->second;
}

}  // namespace orcd::engine
