// The arguments of a call as JSON text, written as models write them. Pure; any thread.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>

namespace orcd::engine {

/// What stands between the parts of a JSON text.
enum class json_spacing {
  usual,  ///< ", " and ": ", as nearly all models write and templates print
  none,   ///< gpt-oss
};

/// The value as text; numbers as Python writes them, text that is not ASCII as it is.
[[nodiscard]] std::string argument_text(const boost::json::value& arguments, json_spacing spacing);

/// A JSON text in the usual spacing, where it has none: a client has written it anew. One that has some is as
/// it was.
[[nodiscard]] std::string with_usual_spacing(std::string_view text);

}  // namespace orcd::engine
