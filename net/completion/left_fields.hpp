// Fields that clients send and that cannot change an answer here: they are taken and left, so that a client
// which was written for another server works. This is the whole list; docs/api/openai.md has it too. With
// --strict-fields they are refused by name. Pure. Private to net/.
#pragma once

#include <boost/json/value.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

/// What of a request is left out although a model could have used it, so that a client which sends it in
/// every request can go on: the answer's header X-Schema-Ignored names it, as "tool=web_search". At most 8 of
/// 40 characters each, none twice.
using left_names = std::vector<std::string>;
/// Other characters of the name than letters, digits, '-', '_' and '.' become '?'.
void note_left(left_names& notes, std::string_view kind, std::string_view name);
/// Adds the notes to a header's value.
void append_left(std::string& header, const left_names& notes);

/// Stands for a picture in the result of a past call: without it no later request could be answered.
constexpr std::string_view picture_text = "[image]";

/// Why a field of a request that asks for something which is not served may still be taken: it has the value
/// that asks for nothing. Nothing where the field is not of this kind; else what its value must be, empty
/// when it is that. For example "must be 0: this worker has no such thing".
struct idle_field {
  bool known = false;
  std::string_view must{};
};
[[nodiscard]] idle_field check_idle_field(std::string_view name, const boost::json::value& value);

}  // namespace orcd::net
