#include "engine/jinja/chat_template.hpp"

#include <algorithm>
#include <utility>

#include "engine/jinja/template_interpreter.hpp"
#include "engine/jinja/template_parser.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine {

namespace json = boost::json;

namespace {

error template_error(const jinja::template_failure& failure) {
  if (failure.raised) return {errc::invalid_request, failure.text(), "messages"};
  const std::string place =
      failure.line > 0 ? "chat template, line " + std::to_string(failure.line) + ": " : "";
  return {errc::invalid_request, place + failure.text(), "chat_template"};
}

/// The result of `work(most)` with the quick limit; nullopt where that limit is too low and the full limit is
/// higher.
template <class Work>
auto quickly(const template_limits& limits, Work work) -> std::optional<decltype(work(0))> {
  const std::uint64_t most = std::min(limits.quick_work, limits.work);
  try {
    return work(most);
  } catch (const jinja::template_failure& failure) {
    if (failure.out_of_work && most < limits.work) return std::nullopt;
    return template_error(failure);
  }
}

template <class Work>
auto fully(const template_limits& limits, Work work) -> decltype(work(0)) {
  try {
    return work(limits.work);
  } catch (const jinja::template_failure& failure) {
    return template_error(failure);
  }
}

}  // namespace

chat_template::chat_template(std::shared_ptr<const jinja::program> program) noexcept
    : program_(std::move(program)) {}

result<chat_template> chat_template::compile(std::string_view text, const template_limits& limits) {
  return fully(limits, [&](std::uint64_t most) { return compile_within(text, limits, most); });
}

std::optional<result<chat_template>> chat_template::compile_quickly(std::string_view text,
                                                                    const template_limits& limits) {
  return quickly(limits, [&](std::uint64_t most) { return compile_within(text, limits, most); });
}

result<std::string> chat_template::render(const json::object& variables, time_point now,
                                          const json::object& more, std::vector<text_range>* callers) const {
  return fully(program_->limits,
               [&](std::uint64_t most) { return render_within(most, variables, now, more, callers); });
}

std::optional<result<std::string>> chat_template::render_quickly(const json::object& variables,
                                                                 time_point now, const json::object& more,
                                                                 std::vector<text_range>* callers) const {
  return quickly(program_->limits,
                 [&](std::uint64_t most) { return render_within(most, variables, now, more, callers); });
}

result<chat_template> chat_template::compile_within(std::string_view text, const template_limits& limits,
                                                    std::uint64_t most_work) {
  if (text.size() > limits.source_bytes) {
    return error{errc::invalid_request,
                 "the chat template has " + std::to_string(text.size()) + " bytes, over the limit of " +
                     std::to_string(limits.source_bytes),
                 "chat_template"};
  }
  jinja::work_meter meter(most_work);
  meter.charge(jinja::cost::source(text.size()));
  if (const std::size_t valid = utf8::valid_bytes(text); valid < text.size()) {
    return error{errc::invalid_request, "the chat template is not UTF-8 at byte " + std::to_string(valid),
                 "chat_template"};
  }
  return chat_template(jinja::parse(text, limits, meter));
}

result<std::string> chat_template::render_within(std::uint64_t most_work, const json::object& variables,
                                                 time_point now, const json::object& more,
                                                 std::vector<text_range>* callers) const {
  std::vector<text_range> parts;
  std::string text = jinja::interpreter(*program_, now, most_work).run(variables, more, parts);
  if (callers != nullptr) *callers = std::move(parts);
  return text;
}

bool chat_template::mentions(std::string_view variable) const noexcept {
  return program_->ids.contains(variable);
}

}  // namespace orcd::engine
