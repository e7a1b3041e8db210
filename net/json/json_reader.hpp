// Reads flat JSON bodies: one object whose values are scalars, strings or arrays of strings, handed over
// field by field. As strict as json_value.hpp, which reads the body; deeper nesting is refused by name.
// Source: M0-W-1302, M0-W-1603, WORK-3120.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/json/json_value.hpp"

namespace orcd::net {

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
  /// Whether the field takes its value as it is, whatever it is; then on_value() gets it.
  [[nodiscard]] virtual bool takes_any() const noexcept { return false; }
  [[nodiscard]] virtual engine::result<void> on_value(const boost::json::value&) { return {}; }
  /// The name of the field being read, for messages.
  [[nodiscard]] virtual std::string_view field() const noexcept = 0;
};

/// Error: as read_json_tree(), or the sink's own.
[[nodiscard]] engine::result<void> read_json_object(std::string_view body, field_sink& sink);

}  // namespace orcd::net
