// A model's chat template: the Jinja text that turns messages into a prompt, compiled once and rendered per
// request.
//
// Renders byte for byte what transformers' apply_chat_template does: an immutable sandbox with trim_blocks,
// lstrip_blocks and loop controls, the functions raise_exception and strftime_now, and tojson without HTML
// escaping. A template sees the variables, the functions and the time, and nothing else of the host.
// Errors (invalid_request, param "chat_template") name the line; a template's own raise_exception is an error
// with param "messages" and the template's text. Thread: compile() and render() run on the caller's; a
// compiled template is immutable, any number of threads may render it at the same time. Source: seed 002
// (chat completions), Jinja 3.1 template documentation.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/chat/template_limits.hpp"

namespace orcd::engine {

namespace jinja {
struct program;
}

class chat_template {
 public:
  /// `text` is copied. Refused: text that is not UTF-8, over a limit, or that does not parse.
  [[nodiscard]] static result<chat_template> compile(std::string_view text, const template_limits& = {});

  /// `now` is what strftime_now formats, in local time.
  [[nodiscard]] result<std::string> render(
      const boost::json::object& variables,
      std::chrono::system_clock::time_point now = std::chrono::system_clock::now()) const;

  /// Whether the template reads this variable anywhere, for example "tools" or "enable_thinking".
  [[nodiscard]] bool mentions(std::string_view variable) const noexcept;

 private:
  explicit chat_template(std::shared_ptr<const jinja::program>) noexcept;
  std::shared_ptr<const jinja::program> program_;
};

}  // namespace orcd::engine
