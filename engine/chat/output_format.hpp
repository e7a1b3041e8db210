// How a model writes tool calls and reasoning, detected from its chat template, and how its output is to be
// read. engine/chat/call_syntax.hpp has the forms as data.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace orcd::engine {

class argument_types;

enum class call_format : std::uint8_t {
  none,
  hermes,      ///< <tool_call>{"name": N, "arguments": {...}}</tool_call>: Qwen, Hermes, Granite 4, EXAONE 4
  llama3,      ///< {"name": N, "parameters": {...}} as the whole output, or after <|python_tag|>
  mistral,     ///< [TOOL_CALLS][{"name": N, "arguments": {...}}, ...] or [TOOL_CALLS]N[ARGS]{...}
  harmony,     ///< messages in channels: gpt-oss
  granite,     ///< <|tool_call|>[{"name": N, "arguments": {...}}, ...]: Granite 3
  command_r,   ///< Action: and a fenced list of {"tool_name": N, "parameters": {...}}
  action,      ///< <|START_ACTION|>[{"tool_call_id", "tool_name", "parameters"}, ...]<|END_ACTION|>: Cohere 2
  tool_code,   ///< {"name": N, "parameters": {...}} in a fence named tool_code: Gemma
  glm,         ///< N, a line end and {...} as the whole output: GLM-4-0414
  arg_pairs,   ///< <tool_call>N<arg_key>K</arg_key><arg_value>V</arg_value></tool_call>: GLM-4.5
  qwen_coder,  ///< <tool_call><function=N><parameter=K>V</parameter></function></tool_call>: Qwen3-Coder
  seed,        ///< the same in <seed:tool_call>: Seed-OSS
  olmo,        ///< <function_calls>N(K=V, ...)</function_calls>: OLMo 3
  internlm,    ///< <|action_start|><|plugin|>{"name": N, "parameters": {...}}<|action_end|>: InternLM 2.5, 3
  gemma4,      ///< <|tool_call>call:N{K:<|"|>text<|"|>,K:1}<tool_call|>: Gemma 4
  lfm2,        ///< <|tool_call_start|>[N(K=V, ...), ...]<|tool_call_end|>: LFM2, LFM2.5
  /// {"tool_calls": [{"name": N, "arguments": {...}}, ...]}, {"tool_call": {...}} or {"response": TEXT} as
  /// the whole output. No template says so: it is for models whose template knows no tools, which are told of
  /// it in text (engine/conversation/generic_messages.hpp) and kept to it by a grammar.
  generic,
};
inline constexpr int call_formats = 18;
/// "hermes", "qwen_coder": for people. "none" where calls stay text.
[[nodiscard]] std::string_view to_string(call_format format) noexcept;

/// The marks around reasoning.
enum class reasoning_style : std::uint8_t {
  think,     ///< <think> and </think>
  seed,      ///< <seed:think>
  brackets,  ///< [THINK]: Magistral, Ministral 3
  thinking,  ///< <|START_THINKING|>: Cohere 2
  channel,   ///< <|channel>thought and <channel|>: Gemma 4
};

/// The marks around an answer behind reasoning. They are no part of it.
enum class answer_style : std::uint8_t {
  bare,
  response,         ///< <response>: Granite 3, ERNIE 4.5
  response_tokens,  ///< <|START_RESPONSE|>: Cohere 2
};

struct output_format {
  call_format calls = call_format::none;
  bool think = false;  ///< reasoning between marks; nothing in harmony, which has its own
  reasoning_style reasoning = reasoning_style::think;
  answer_style answer = answer_style::bare;
  bool text_end = false;  ///< the text <|im_end|> ends the output: no token of the vocabulary does

  bool operator==(const output_format&) const = default;
};

struct parse_options {
  bool tools = true;          ///< false: calls are left in the content (harmony: calls are content)
  bool in_reasoning = false;  ///< the prompt ended with an open <think> (ends_in_reasoning)
  /// The offered functions. Without them every name counts as offered, and nothing is known of arguments.
  std::shared_ptr<const argument_types> types{};
  /// Whether calls are also read where models forget marks, or the end of their reasoning. Not where a
  /// grammar promises something of each call: it does not know of these.
  bool lenient = true;
  bool in_answer = false;    ///< generic: the prompt ended within the text of a response
  bool json_answer = false;  ///< generic: a response is content as it is written, also where it is a text
};

/// How an output ended.
enum class output_end : std::uint8_t {
  whole,  ///< by the model, or by a stop string
  cut,    ///< by the limit of tokens, anywhere
};

/// A format that is not listed above counts as none: its calls stay text.
[[nodiscard]] output_format detect_output_format(std::string_view chat_template);

/// The marks that separate the parts of an output of this format. A mark that is a control token of the
/// vocabulary must reach the parser as text (token_stream's render_special) or by output_parser::push_mark.
[[nodiscard]] std::vector<std::string_view> marks_of(const output_format& format);

/// The same and what models write in their place: all that a reader must see.
[[nodiscard]] std::vector<std::string_view> reading_marks(const output_format& format);

/// The text that ends an output of this format, or empty.
[[nodiscard]] std::string_view end_mark_of(const output_format& format) noexcept;

/// Two marks around a part of an output.
struct mark_pair {
  std::string_view open{}, close{};
};
/// How reasoning is written.
struct reasoning_syntax : mark_pair {
  std::string_view label{};  ///< a line behind `open` that is no part of it: what the text is
  bool anywhere = false;     ///< it may begin behind content and calls too, and `close` alone is nothing
};
/// Of a format, or nothing.
[[nodiscard]] reasoning_syntax reasoning_marks(const output_format& format) noexcept;

/// Whether a rendered prompt ends inside reasoning, so that the output begins there.
[[nodiscard]] bool ends_in_reasoning(std::string_view prompt, const output_format& format) noexcept;
/// Whether it ends behind a reasoning, which tells the model not to reason.
[[nodiscard]] bool ends_after_reasoning(std::string_view prompt, const output_format& format) noexcept;

}  // namespace orcd::engine
