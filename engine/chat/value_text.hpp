// Arguments that a model writes as text, as JSON. Pure.
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/argument_types.hpp"

namespace orcd::engine {

/// Appends text as it stands within a JSON string, without the quotes.
void append_escaped(std::string& out, std::string_view text);

/// JSON's true, false or null for Python's True, False or None; any other text as it is.
[[nodiscard]] std::string_view without_python(std::string_view text) noexcept;

/// JSON of this type: the text itself if it is JSON (or Python's True, False, None) of a type that is
/// allowed, else a string that holds it.
[[nodiscard]] std::string value_of_text(std::string_view text, const argument_type& type);

/// The same of a text that was cut off: the beginning of JSON, which nothing completes. Empty if nothing
/// came.
[[nodiscard]] std::string value_of_cut_text(std::string_view text, const argument_type& type);

}  // namespace orcd::engine
