#include "net/json/object_members.hpp"

#include <algorithm>

#include "net/json/field_checks.hpp"
#include "net/json/json_value.hpp"

namespace orcd::net {

namespace json = boost::json;
using engine::error;
using engine::result;

std::string element_path(const std::string& list, std::size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

error refuse_kind(const std::string& path, std::string_view must, const json::value& value) {
  return refuse_field(path, "must be " + std::string(must) + ", it is " + std::string(kind_name(value)));
}

const json::value* find_member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

result<void> only_members(const json::object& object, const std::string& path,
                          std::span<const std::string_view> known) {
  for (const auto& field : object) {
    if (field.value().is_null() || std::find(known.begin(), known.end(), field.key()) != known.end())
      continue;
    return refuse_field(path + "." + shown_name(field.key()), "is not supported");
  }
  return {};
}

result<std::string_view> text_member(const json::object& object, const std::string& path,
                                     std::string_view name) {
  const auto* value = find_member(object, name);
  const std::string where = path + "." + std::string(name);
  if (value == nullptr) return refuse_field(where, "is missing");
  if (!value->is_string()) return refuse_kind(where, "a string", *value);
  return std::string_view(value->get_string());
}

result<const json::object*> object_member(const json::object& object, const std::string& path,
                                          std::string_view name) {
  const auto* value = find_member(object, name);
  const std::string where = path + "." + std::string(name);
  if (value == nullptr) return refuse_field(where, "is missing");
  if (!value->is_object()) return refuse_kind(where, "an object", *value);
  return &value->get_object();
}

result<bool> flag_member(const json::object& object, const std::string& path, std::string_view name,
                         bool absent) {
  const auto* value = find_member(object, name);
  if (value == nullptr) return absent;
  if (!value->is_bool()) return refuse_kind(path + "." + std::string(name), "true or false", *value);
  return value->get_bool();
}

}  // namespace orcd::net
