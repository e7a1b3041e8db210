// Fields that clients send and that cannot change an answer here: they are taken and left, so that a client
// which was written for another server works. This is the whole list; docs/api.md has it too. With
// --strict-fields they are refused by name. Pure. Private to net/.
#pragma once

#include <boost/json/value.hpp>
#include <span>
#include <string_view>

namespace orcd::net {

/// Where in a body a field is.
enum class field_place {
  request,
  message,
  part,      ///< of a message's content
  call,      ///< of a tool, in an assistant's message
  tool,      ///< one that is offered
  function,  ///< of a tool or of a call
};

/// The fields that are taken and left, whatever their values.
[[nodiscard]] std::span<const std::string_view> left_fields(field_place place) noexcept;

/// Why a field of a request that asks for something which is not served may still be taken: it has the value
/// that asks for nothing. Nothing where the field is not of this kind; else what its value must be, empty
/// when it is that. For example "must be 0: this worker has no such thing".
struct idle_field {
  bool known = false;
  std::string_view must{};
};
[[nodiscard]] idle_field check_idle_field(std::string_view name, const boost::json::value& value);

}  // namespace orcd::net
