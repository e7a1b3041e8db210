#include "engine/chat/chat_template.hpp"

#include <algorithm>
#include <utility>

#include "engine/chat/template_interpreter.hpp"
#include "engine/chat/template_parser.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine {
namespace {

error template_error(const jinja::template_failure& failure) {
  if (failure.raised) return {errc::invalid_request, failure.text(), "messages"};
  const std::string place =
      failure.line > 0 ? "chat template, line " + std::to_string(failure.line) + ": " : "";
  return {errc::invalid_request, place + failure.text(), "chat_template"};
}

/// The place of the first byte that is not UTF-8, or the size.
std::size_t valid_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const utf8::decoded code = utf8::decode(text.data() + at, text.data() + text.size());
    if (code.code == utf8::invalid) break;
    at += code.size;
  }
  return at;
}

}  // namespace

chat_template::chat_template(std::shared_ptr<const jinja::program> program) noexcept
    : program_(std::move(program)) {}

result<chat_template> chat_template::compile(std::string_view text, const template_limits& limits) {
  if (text.size() > limits.source_bytes) {
    return error{errc::invalid_request,
                 "the chat template has " + std::to_string(text.size()) + " bytes, over the limit of " +
                     std::to_string(limits.source_bytes),
                 "chat_template"};
  }
  if (const std::size_t valid = valid_bytes(text); valid < text.size()) {
    return error{errc::invalid_request, "the chat template is not UTF-8 at byte " + std::to_string(valid),
                 "chat_template"};
  }
  try {
    return chat_template(jinja::parse(text, limits));
  } catch (const jinja::template_failure& failure) {
    return template_error(failure);
  }
}

result<std::string> chat_template::render(const boost::json::object& variables,
                                          std::chrono::system_clock::time_point now) const {
  try {
    return jinja::interpreter(*program_, now).run(variables);
  } catch (const jinja::template_failure& failure) {
    return template_error(failure);
  }
}

bool chat_template::mentions(std::string_view variable) const noexcept {
  return std::find(program_->names.begin(), program_->names.end(), variable) != program_->names.end();
}

}  // namespace orcd::engine
