// A model's chat template: the Jinja text that turns messages into a prompt, compiled once and
// rendered per request.
//
// Renders byte for byte what transformers' apply_chat_template does: an immutable sandbox with trim_blocks,
// lstrip_blocks and loop controls, the functions raise_exception and strftime_now, and tojson without HTML
// escaping. A template sees the variables, the functions and the time, and nothing else of the host.
// Work is counted (template_limits::work), never timed: the same template and variables give the same text or
// the same error on any machine under any load. For a thread that must not be held up that long, such as the
// io thread, compile_quickly() and render_quickly() give up after about a millisecond; then compile() and
// render() have to be called on another thread.
// Errors (invalid_request, param "chat_template") name the line; a template's own raise_exception is an error
// with param "messages" and the template's text, of which the first 4,096 bytes are kept. Thread: compile()
// and render() run on the caller's; a compiled template is immutable, any number of threads may render it at
// the same time. Source: Jinja 3.1 template documentation.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/jinja/template_limits.hpp"
#include "engine/text/text_range.hpp"

namespace orcd::engine {

namespace jinja {
struct program;
}

class chat_template {
 public:
  /// Compiles a template; `text` is copied. Refuses text that is not UTF-8, exceeds a limit or does not
  /// parse.
  [[nodiscard]] static result<chat_template> compile(std::string_view text, const template_limits& = {});
  /// As compile(); nullopt when it takes more work than template_limits::quick_work.
  [[nodiscard]] static std::optional<result<chat_template>> compile_quickly(std::string_view text,
                                                                            const template_limits& = {});

  using time_point = std::chrono::system_clock::time_point;
  /// Renders the template. `now` is what strftime_now formats, in local time. Of `more`, the template sees
  /// the variables whose names are not in `variables`. `callers` becomes the parts of the text that are
  /// not the template's own words but came from `variables`; known roles of messages count as its own.
  [[nodiscard]] result<std::string> render(const boost::json::object& variables,
                                           time_point now = std::chrono::system_clock::now(),
                                           const boost::json::object& more = {},
                                           std::vector<text_range>* callers = nullptr) const;
  /// As render(); nullopt when it takes more work than template_limits::quick_work.
  [[nodiscard]] std::optional<result<std::string>> render_quickly(
      const boost::json::object& variables, time_point now = std::chrono::system_clock::now(),
      const boost::json::object& more = {}, std::vector<text_range>* callers = nullptr) const;

  /// Whether the template reads this variable anywhere, for example "tools" or "enable_thinking".
  [[nodiscard]] bool mentions(std::string_view variable) const noexcept;

 private:
  explicit chat_template(std::shared_ptr<const jinja::program>) noexcept;
  /// These throw jinja::template_failure.
  static result<chat_template> compile_within(std::string_view text, const template_limits& limits,
                                              std::uint64_t most_work);
  [[nodiscard]] result<std::string> render_within(std::uint64_t most_work,
                                                  const boost::json::object& variables, time_point now,
                                                  const boost::json::object& more,
                                                  std::vector<text_range>* callers) const;

  std::shared_ptr<const jinja::program> program_;
};

}  // namespace orcd::engine
