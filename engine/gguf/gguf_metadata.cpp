#include <algorithm>
#include <array>
#include <string>

#include "engine/gguf/gguf_parser.hpp"

namespace orcd::engine {
namespace {

constexpr std::array<std::string_view, 13> type_names{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                      "bool", "string", "array", "u64", "i64", "f64"};
/// Bytes of one element; 0 for a string or an array.
constexpr std::array<std::uint64_t, 13> type_sizes{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

using value_variant = decltype(gguf_value::value);

void fail_type(byte_cursor& cursor, std::string_view field, std::uint64_t at, std::uint32_t id) {
  cursor.fail(field, at, "is " + std::to_string(id) + "; GGUF defines 0 to 12");
}

bool read_bool(byte_cursor& cursor) {
  const std::uint64_t at = cursor.offset();
  const auto byte = cursor.read<std::uint8_t>("value");
  if (byte > 1) cursor.fail("value", at, "is the byte " + std::to_string(byte) + "; a bool is 0 or 1");
  return byte == 1;
}

gguf_array read_array(byte_cursor& cursor, const gguf_limits& limits) {
  const std::uint64_t at = cursor.offset();
  const auto element = cursor.read<std::uint32_t>("array element type");
  const auto count = cursor.read<std::uint64_t>("array count");
  if (!cursor.ok()) return {};
  if (element >= type_names.size()) fail_type(cursor, "array element type", at, element);
  if (element == static_cast<std::uint32_t>(gguf_value_type::array)) {
    cursor.fail("array element type", at, "is array; arrays of arrays are not supported");
  }
  if (!cursor.ok()) return {};
  gguf_array out{static_cast<gguf_value_type>(element), count, {}};
  const bool strings = out.element == gguf_value_type::string;
  const std::uint64_t smallest = strings ? sizeof(std::uint64_t) : type_sizes[element];
  if (count > cursor.remaining() / smallest) {
    cursor.fail("array count", at + 4,
                "is " + std::to_string(count) + ", but the " + std::to_string(cursor.remaining()) +
                    " bytes that are left hold at most " + std::to_string(cursor.remaining() / smallest));
    return {};
  }
  if (!strings) {
    out.payload = cursor.take(count * smallest, "array");  // cannot overflow: checked against remaining()
    return out;
  }
  const std::uint64_t first = cursor.offset();
  byte_cursor start = cursor;
  for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
    static_cast<void>(cursor.read_string("array element", limits.string_bytes));
  }
  if (cursor.ok()) out.payload = start.take(cursor.offset() - first, "array");
  return out;
}

value_variant read_value(byte_cursor& cursor, gguf_value_type type, const gguf_limits& limits) {
  const auto whole = [](auto v) { return static_cast<std::uint64_t>(v); };
  const auto integer = [](auto v) { return static_cast<std::int64_t>(v); };
  switch (type) {
    case gguf_value_type::u8: return whole(cursor.read<std::uint8_t>("value"));
    case gguf_value_type::u16: return whole(cursor.read<std::uint16_t>("value"));
    case gguf_value_type::u32: return whole(cursor.read<std::uint32_t>("value"));
    case gguf_value_type::u64: return cursor.read<std::uint64_t>("value");
    case gguf_value_type::i8: return integer(cursor.read<std::int8_t>("value"));
    case gguf_value_type::i16: return integer(cursor.read<std::int16_t>("value"));
    case gguf_value_type::i32: return integer(cursor.read<std::int32_t>("value"));
    case gguf_value_type::i64: return cursor.read<std::int64_t>("value");
    case gguf_value_type::f32: return static_cast<double>(cursor.read<float>("value"));
    case gguf_value_type::f64: return cursor.read<double>("value");
    case gguf_value_type::boolean: return read_bool(cursor);
    case gguf_value_type::string: return cursor.read_string("value", limits.string_bytes);
    case gguf_value_type::array: return read_array(cursor, limits);
  }
  return std::uint64_t{0};
}

std::string_view read_key(byte_cursor& cursor, const gguf_limits& limits) {
  const std::uint64_t at = cursor.offset();
  const std::string_view key = cursor.read_string("key", limits.key_bytes);
  if (!cursor.ok()) return key;
  if (key.empty()) cursor.fail("key", at, "is empty");
  if (key.find('\0') != std::string_view::npos)
    cursor.fail("key", at, in_quotes(key) + " contains a NUL byte");
  return key;
}

}  // namespace

std::string_view value_type_name(std::uint32_t id) noexcept {
  return id < type_names.size() ? type_names[id] : std::string_view("unknown");
}

std::vector<gguf_entry> read_entries(byte_cursor& cursor, std::uint64_t count, const gguf_limits& limits) {
  std::vector<gguf_entry> out;
  out.reserve(count);
  for (std::uint64_t i = 0; i < count && cursor.ok(); ++i) {
    cursor.set_subject({}, {});
    gguf_entry entry;
    entry.key = read_key(cursor, limits);
    cursor.set_subject("key", entry.key);
    const std::uint64_t at = cursor.offset();
    const auto type = cursor.read<std::uint32_t>("value type");
    if (type >= type_names.size()) fail_type(cursor, "value type", at, type);
    if (!cursor.ok()) break;
    entry.value.type = static_cast<gguf_value_type>(type);
    entry.value.value = read_value(cursor, entry.value.type, limits);
    if (cursor.ok()) out.push_back(std::move(entry));
  }
  cursor.set_subject({}, {});
  return out;
}

}  // namespace orcd::engine
