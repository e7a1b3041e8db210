// Values as text: Python's str() and repr(), and json.dumps as transformers calls it; and a value of JSON
// text that a model has written. All functions charge what they do and throw template_failure.
#pragma once

#include <string>
#include <string_view>

#include "engine/jinja/template_context.hpp"
#include "engine/jinja/text_builder.hpp"

namespace orcd::engine::jinja {

/// Appends str(v).
void append_text(context& c, text_builder& out, const value& v);
void append_repr(context& c, text_builder& out, const value& v);
/// str(v): the text itself when v is one.
[[nodiscard]] std::string_view text_of(context& c, const value& v);
/// repr(float).
void append_real(text_builder& out, double real);

struct json_style {
  bool ascii = false;   ///< ensure_ascii
  bool pretty = false;  ///< on several lines, each level indented by `indent`
  std::string indent;
  std::string between = ", ";
  std::string after_key = ": ";
  bool sorted = false;
};
void append_json(context& c, text_builder& out, const value& v, const json_style& style);

/// Arguments of a past call as a client has sent them (sent_arguments): an object whose parts remember their
/// spelling, so that a prompt says again what the model said. The text may have been cut anywhere: the object
/// has what came before, and is written as the text as far as it goes. One that is no beginning of a JSON
/// object becomes the only member, "arguments", of an object that is written as the text all the same. The
/// text must outlive the rendering.
[[nodiscard]] value read_sent(context& c, std::string_view text);

}  // namespace orcd::engine::jinja
