// The readers of single calls that are not JSON objects. Private to make_call_body.
#pragma once

#include <memory>

#include "engine/chat/call_body.hpp"

namespace orcd::engine {

[[nodiscard]] std::unique_ptr<call_body> make_element_reader(const call_syntax& syntax,
                                                             std::shared_ptr<const argument_types> types,
                                                             bool lenient);
/// name(key=value, ...) with the values of JSON or of Python; tuples are lists, prefixed strings are none.
[[nodiscard]] std::unique_ptr<call_body> make_python_reader();
/// The name and an object with bare names, and texts between marks.
[[nodiscard]] std::unique_ptr<call_body> make_marked_reader(const call_syntax& syntax);
/// The name of a function that is offered, white space, an object.
[[nodiscard]] std::unique_ptr<call_body> make_named_reader(std::shared_ptr<const argument_types> types);

}  // namespace orcd::engine
