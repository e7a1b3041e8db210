// How a model writes tool calls and reasoning, detected from its chat template, and how its output is to be
// read.
#pragma once

#include <string_view>
#include <vector>

namespace orcd::engine {

enum class call_format {
  none,
  hermes,   ///< <tool_call>{"name": N, "arguments": {...}}</tool_call>: Qwen, Hermes
  llama3,   ///< {"name": N, "parameters": {...}} as the whole output, or after <|python_tag|>
  mistral,  ///< [TOOL_CALLS][{"name": N, "arguments": {...}}, ...] or [TOOL_CALLS]N[ARGS]{...}
  harmony,  ///< messages in channels: gpt-oss
};

struct output_format {
  call_format calls = call_format::none;
  bool think = false;  ///< reasoning between <think> and </think>; nothing in harmony, which has its own

  bool operator==(const output_format&) const = default;
};

struct parse_options {
  bool tools = true;          ///< false: calls are left in the content (harmony: calls are content)
  bool in_reasoning = false;  ///< the prompt ended with an open <think> (ends_in_reasoning)
};

/// Formats that are not listed above (such as Qwen3-Coder's XML) count as none: their calls stay text.
[[nodiscard]] output_format detect_output_format(std::string_view chat_template);

/// The marks that separate the parts of an output of this format. A mark that is a control token of the
/// vocabulary must reach the parser as text (token_stream's render_special) or by output_parser::push_mark.
[[nodiscard]] std::vector<std::string_view> marks_of(const output_format& format);

/// Whether a rendered prompt ends inside reasoning, so that the output begins there.
[[nodiscard]] bool ends_in_reasoning(std::string_view prompt) noexcept;

}  // namespace orcd::engine
