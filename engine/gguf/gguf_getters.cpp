// The typed getters of gguf_file.
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/gguf_contents.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/gguf/gguf_parser.hpp"

namespace orcd::engine {
namespace {

std::string describe_type(const gguf_value& value) {
  std::string name(value_type_name(static_cast<std::uint32_t>(value.type)));
  if (const auto* array = std::get_if<gguf_array>(&value.value)) {
    name += " of " + std::string(value_type_name(static_cast<std::uint32_t>(array->element)));
  }
  return name;
}

error wrong_type(const gguf_file& file, std::string_view key, const gguf_value& value,
                 std::string_view expected) {
  return model_error(file.location(), "key " + in_quotes(key) + " has type " + describe_type(value) +
                                          "; it must be " + std::string(expected));
}

error wrong_value(const gguf_file& file, std::string_view key, const std::string& text) {
  return model_error(file.location(), "key " + in_quotes(key) + " " + text);
}

error missing(const gguf_file& file, std::string_view key) {
  return model_error(file.location(), "key " + in_quotes(key) + " is missing");
}

/// Calls `take(value)` for each element of type T; stops when it returns false.
template <class T, class F>
bool for_each(const gguf_array& array, F take) {
  for (std::uint64_t i = 0; i < array.count; ++i) {
    T value{};
    std::memcpy(&value, array.payload.data() + i * sizeof(T), sizeof(T));
    if (!take(value)) return false;
  }
  return true;
}

/// False when an element does not fit int64 or the element type is not an integer.
bool append_integers(const gguf_array& array, std::vector<std::int64_t>& out) {
  const auto add = [&](auto value) {
    if constexpr (std::is_same_v<decltype(value), std::uint64_t>) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return false;
    }
    out.push_back(static_cast<std::int64_t>(value));
    return true;
  };
  out.reserve(array.count);
  switch (array.element) {
    case gguf_value_type::boolean:
    case gguf_value_type::u8: return for_each<std::uint8_t>(array, add);
    case gguf_value_type::i8: return for_each<std::int8_t>(array, add);
    case gguf_value_type::u16: return for_each<std::uint16_t>(array, add);
    case gguf_value_type::i16: return for_each<std::int16_t>(array, add);
    case gguf_value_type::u32: return for_each<std::uint32_t>(array, add);
    case gguf_value_type::i32: return for_each<std::int32_t>(array, add);
    case gguf_value_type::u64: return for_each<std::uint64_t>(array, add);
    case gguf_value_type::i64: return for_each<std::int64_t>(array, add);
    default: return false;
  }
}

bool is_integer(gguf_value_type type) {
  return type != gguf_value_type::f32 && type != gguf_value_type::f64 && type != gguf_value_type::string &&
         type != gguf_value_type::array;
}

}  // namespace

result<std::uint64_t> gguf_file::get_unsigned(std::string_view key, std::uint64_t fallback) const {
  const gguf_value* value = find(key);
  if (value == nullptr) return fallback;
  if (const auto* number = std::get_if<std::uint64_t>(&value->value)) return *number;
  const auto* number = std::get_if<std::int64_t>(&value->value);
  if (number == nullptr) return wrong_type(*this, key, *value, "an integer");
  if (*number < 0)
    return wrong_value(*this, key, "is " + std::to_string(*number) + "; it must be at least 0");
  return static_cast<std::uint64_t>(*number);
}

result<double> gguf_file::get_float(std::string_view key, double fallback) const {
  const gguf_value* value = find(key);
  if (value == nullptr) return fallback;
  const auto* number = std::get_if<double>(&value->value);
  if (number == nullptr) return wrong_type(*this, key, *value, "f32 or f64");
  if (!std::isfinite(*number)) return wrong_value(*this, key, "is not a finite number");
  return *number;
}

result<bool> gguf_file::get_bool(std::string_view key, bool fallback) const {
  const gguf_value* value = find(key);
  if (value == nullptr) return fallback;
  const auto* flag = std::get_if<bool>(&value->value);
  if (flag == nullptr) return wrong_type(*this, key, *value, "bool");
  return *flag;
}

result<std::string_view> gguf_file::get_string(std::string_view key, std::string_view fallback) const {
  const gguf_value* value = find(key);
  if (value == nullptr) return fallback;
  const auto* text = std::get_if<std::string_view>(&value->value);
  if (text == nullptr) return wrong_type(*this, key, *value, "string");
  return *text;
}

result<std::uint64_t> gguf_file::require_unsigned(std::string_view key) const {
  if (find(key) == nullptr) return missing(*this, key);
  return get_unsigned(key, 0);
}

result<std::string_view> gguf_file::require_string(std::string_view key) const {
  if (find(key) == nullptr) return missing(*this, key);
  return get_string(key, {});
}

result<std::vector<std::string_view>> gguf_file::get_strings(std::string_view key) const {
  const gguf_value* value = find(key);
  if (value == nullptr) return std::vector<std::string_view>();
  const auto* array = std::get_if<gguf_array>(&value->value);
  if (array == nullptr || array->element != gguf_value_type::string) {
    return wrong_type(*this, key, *value, "array of string");
  }
  std::vector<std::string_view> out;
  out.reserve(array->count);
  byte_cursor cursor(array->payload, location());
  for (std::uint64_t i = 0; i < array->count; ++i) {
    out.push_back(cursor.read_string("array element", array->payload.size()));
  }
  // open() has read the same bytes; this fails only when the file was changed under the mapping.
  if (!cursor.ok()) return cursor.failure();
  return out;
}

result<std::vector<float>> gguf_file::get_floats(std::string_view key) const {
  const gguf_value* value = find(key);
  if (value == nullptr) return std::vector<float>();
  const auto* array = std::get_if<gguf_array>(&value->value);
  std::vector<float> out;
  const auto add = [&](auto number) {
    out.push_back(static_cast<float>(number));
    return true;
  };
  if (array != nullptr && array->element == gguf_value_type::f32) {
    out.reserve(array->count);
    for_each<float>(*array, add);
  } else if (array != nullptr && array->element == gguf_value_type::f64) {
    out.reserve(array->count);
    for_each<double>(*array, add);
  } else {
    return wrong_type(*this, key, *value, "array of f32 or f64");
  }
  return out;
}

result<std::vector<std::int64_t>> gguf_file::get_integers(std::string_view key) const {
  const gguf_value* value = find(key);
  if (value == nullptr) return std::vector<std::int64_t>();
  const auto* array = std::get_if<gguf_array>(&value->value);
  if (array == nullptr || !is_integer(array->element))
    return wrong_type(*this, key, *value, "array of integers");
  std::vector<std::int64_t> out;
  if (!append_integers(*array, out)) return wrong_value(*this, key, "has an element above 2^63 - 1");
  return out;
}

}  // namespace orcd::engine
