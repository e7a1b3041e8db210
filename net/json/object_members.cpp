#include "net/json/object_members.hpp"

#include "net/json/json_value.hpp"
#include "net/json/names.hpp"

namespace orcd::net {

namespace json = boost::json;
using engine::error;
using engine::result;

namespace {

std::string member_path(const std::string& path, std::string_view name) {
  return path + "." + std::string(name);
}

}  // namespace

std::string element_path(const std::string& list, std::size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

error refuse_kind(std::string_view path, std::string_view must, const json::value& value) {
  return refuse_field(path, "must be " + std::string(must) + ", it is " + std::string(kind_name(value)));
}

error refuse_word(std::string_view path, std::string_view must, std::string_view word) {
  return refuse_field(path, "must be " + std::string(must) + ", it is '" + shown_name(word) + "'");
}

json::value without_fraction(const json::value& value) {
  const auto* const number = value.if_double();
  const auto whole = number == nullptr ? std::nullopt : whole_number(*number);
  return whole ? json::value(*whole) : value;
}

result<std::string_view> as_text(std::string_view path, const json::value& value) {
  if (!value.is_string()) return refuse_kind(path, "a string", value);
  return std::string_view(value.get_string());
}

result<bool> as_flag(std::string_view path, const json::value& value) {
  if (!value.is_bool()) return refuse_kind(path, "true or false", value);
  return value.get_bool();
}

result<std::uint64_t> as_integer(std::string_view path, const json::value& value, std::uint64_t low,
                                 std::uint64_t high) {
  const auto number = scalar_of(value);
  if (!number) return refuse_kind(path, "an integer", value);
  return check_integer(path, *number, low, high);
}

result<float> as_real(std::string_view path, const json::value& value, const real_range& range) {
  const auto number = scalar_of(value);
  if (!number) return refuse_kind(path, "a number", value);
  return check_real(path, *number, range);
}

const json::value* find_member(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

result<void> only_members(const json::object& object, const std::string& path,
                          std::span<const std::string_view> known, std::span<const std::string_view> also) {
  for (const auto& field : object) {
    const std::string_view name = field.key();
    if (field.value().is_null() || is_listed(known, name) || is_listed(also, name)) continue;
    return refuse_field(member_path(path, shown_name(name)), "is not supported");
  }
  return {};
}

result<std::string_view> text_member(const json::object& object, const std::string& path,
                                     std::string_view name) {
  const auto* value = find_member(object, name);
  if (value == nullptr) return refuse_field(member_path(path, name), "is missing");
  return as_text(member_path(path, name), *value);
}

result<std::string_view> optional_text_member(const json::object& object, const std::string& path,
                                              std::string_view name) {
  const auto* value = find_member(object, name);
  if (value == nullptr) return std::string_view();
  return as_text(member_path(path, name), *value);
}

result<const json::object*> object_member(const json::object& object, const std::string& path,
                                          std::string_view name) {
  const auto* value = find_member(object, name);
  if (value == nullptr) return refuse_field(member_path(path, name), "is missing");
  if (!value->is_object()) return refuse_kind(member_path(path, name), "an object", *value);
  return &value->get_object();
}

result<bool> flag_member(const json::object& object, const std::string& path, std::string_view name,
                         bool absent) {
  const auto* value = find_member(object, name);
  if (value == nullptr) return absent;
  return as_flag(member_path(path, name), *value);
}

}  // namespace orcd::net
