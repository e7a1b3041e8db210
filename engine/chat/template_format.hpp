// Values as text: Python's str() and repr(), json.dumps as transformers calls it, and the two ways of
// formatting. All charge what they write and throw template_failure.
#pragma once

#include <string>
#include <string_view>

#include "engine/chat/template_context.hpp"

namespace orcd::engine::jinja {

/// Appends str(v).
void append_text(context& c, std::string& out, const value& v);
void append_repr(context& c, std::string& out, const value& v);
/// str(v): the text itself when v is one.
[[nodiscard]] std::string_view text_of(context& c, const value& v);
/// repr(float).
void append_real(std::string& out, double real);

struct json_style {
  bool ascii = false;   ///< ensure_ascii
  bool pretty = false;  ///< with line ends, each level indented by `indent`
  std::string indent;
  std::string between = ", ";
  std::string after_key = ": ";
  bool sorted = false;
};
void append_json(context& c, std::string& out, const value& v, const json_style& style);

/// format % argument: %s %r %d %i %f %x with flags, width and precision.
[[nodiscard]] value percent_format(context& c, std::string_view format, const value& argument);

}  // namespace orcd::engine::jinja
