// How a model writes tool calls and reasoning, found from its chat template.
// Source: model-facts 6.5 to 6.7.
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

/// Formats that are not listed above (Qwen3-Coder's XML) are none: their calls stay text.
[[nodiscard]] output_format detect_output_format(std::string_view chat_template);

/// The texts that part an output of this format. Where the vocabulary has one as a control token, it must
/// reach the parser as text (token_stream's render_special) or by output_parser::push_mark.
[[nodiscard]] std::vector<std::string_view> marks_of(const output_format& format);

/// Whether a rendered prompt ends inside reasoning, so that the output begins there.
[[nodiscard]] bool ends_in_reasoning(std::string_view prompt) noexcept;

}  // namespace orcd::engine
