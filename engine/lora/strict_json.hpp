// JSON of an adapter's files: one object of few levels, in which no name occurs twice. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::engine {

/// Errors are "FILE: ...", and name the first name that an object has twice. What it allocates is in
/// proportion to the text.
[[nodiscard]] result<boost::json::object> read_strict_json(std::string_view text, std::string_view file);

}  // namespace orcd::engine
