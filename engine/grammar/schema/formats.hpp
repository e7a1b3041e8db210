// The string formats that a schema may ask for, as patterns. What they match is always valid in the format;
// rare spellings that the format also allows (leap seconds, quoted mail names) are left out. Source: JSON
// Schema 2020-12 validation 7.3; RFC 3339, 4122, 5321.
#pragma once

#include <string>
#include <string_view>

namespace orcd::engine::grammar {

/// An anchored pattern of regex.hpp, or empty when the format is not supported.
[[nodiscard]] std::string_view pattern_of_format(std::string_view format);

}  // namespace orcd::engine::grammar
