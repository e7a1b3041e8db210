// Reads the JSON bodies this server takes: one flat object whose values are scalars or arrays of
// strings. Streaming (no tree is built), strict: duplicate keys, invalid UTF-8, lone surrogates and any
// nesting beyond that are refused before anything is stored. Source: M0-W-1302, M0-W-1603, WORK-3120.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "engine/base/error.hpp"

namespace orcd::net {

/// A JSON scalar other than a string. Integers above 2^63-1 are unsigned; above 2^64-1 they are double.
using json_scalar = std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double>;

/// What kind of value it is, for messages: "a number", "null".
[[nodiscard]] std::string_view kind_name(const json_scalar& value) noexcept;

/// Receives the fields in order. An error ends the reading and is what read_json_object returns.
class field_sink {
 public:
  virtual ~field_sink() = default;
  /// The next value belongs to this field. Refuses unknown and repeated names.
  [[nodiscard]] virtual engine::result<void> on_field(std::string_view name) = 0;
  [[nodiscard]] virtual engine::result<void> on_string(std::string&& value) = 0;
  [[nodiscard]] virtual engine::result<void> on_scalar(const json_scalar& value) = 0;
  /// The field's value is an array; its elements follow as on_element. Refuses where none is expected.
  [[nodiscard]] virtual engine::result<void> on_array() = 0;
  [[nodiscard]] virtual engine::result<void> on_element(std::string&& value) = 0;
  /// The name of the field being read, for messages.
  [[nodiscard]] virtual std::string_view field() const noexcept = 0;
};

/// Error: invalid_request with the byte where the JSON went wrong, or the sink's own error.
[[nodiscard]] engine::result<void> read_json_object(std::string_view body, field_sink& sink);

/// A name as a message may show it: cut to 64 bytes.
[[nodiscard]] std::string shown_name(std::string_view name);

/// The refusal of a field that this request does not have.
[[nodiscard]] engine::error unknown_field(std::string_view name);

}  // namespace orcd::net
