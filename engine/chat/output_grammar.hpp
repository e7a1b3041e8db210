// Grammars of whole outputs: the frame that a format puts around tool calls or a structured answer, with the
// schemas inside. For tool_choice "required" or named, for strict functions, and for response_format; what
// output_parser then reads always has the calls or the content that was promised.
//
// Reasoning may come first where the format has it (<think>, Harmony's analysis) and is free text without a
// limit of its own. Any thread. Errors: invalid_request, with the schema's path (grammar.hpp).
// Source: issue 5 item 3.
#pragma once

#include <boost/json/value.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/base/error.hpp"
#include "engine/chat/output_format.hpp"
#include "engine/grammar/grammar.hpp"

namespace orcd::engine {

/// Calls in one output at most.
inline constexpr std::uint32_t parallel_calls_max = 16;

struct output_frame {
  output_format format;
  bool in_reasoning = false;  ///< the prompt ended with an open <think> (ends_in_reasoning)
  bool may_reason = true;     ///< false: straight to the call or the answer
};

/// A function that may be called. A null `parameters` allows any object.
struct callable {
  std::string name;  ///< 1 to 64 of A-Z a-z 0-9 _ - . :
  const boost::json::value* parameters = nullptr;
  bool strict = false;
};

/// With `parallel` several calls, where the format has that (hermes, mistral).
struct offered_calls {
  std::span<const callable> tools{};
  bool parallel = false;
};

/// One call of one of the tools, or several.
[[nodiscard]] result<std::shared_ptr<const grammar::program>> make_call_grammar(
    const output_frame& frame, const offered_calls& offered, const grammar::token_table& tokens);

/// Any output, in which no call of a strict tool has other than valid arguments: what opens a call is
/// followed by the rest of one. Calls of the other tools are kept to objects only where the format needs it
/// to find the end of a call (hermes, mistral, and llama3 for a call with a known name). An object that
/// llama3 would take for a call of an unknown function cannot come.
[[nodiscard]] result<std::shared_ptr<const grammar::program>> make_open_grammar(
    const output_frame& frame, std::span<const callable> tools, const grammar::token_table& tokens);

/// An answer that is valid under `schema`, or any JSON object when it is null; where tools are offered, that
/// or calls.
[[nodiscard]] result<std::shared_ptr<const grammar::program>> make_response_grammar(
    const output_frame& frame, const boost::json::value* schema, const grammar::schema_options& options,
    const grammar::token_table& tokens, const offered_calls& offered = {});

}  // namespace orcd::engine
