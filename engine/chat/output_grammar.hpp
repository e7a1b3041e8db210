// Grammars of whole outputs: the frame that a format puts around tool calls or a structured answer, with the
// schemas inside. For tool_choice "required" or a named function, for strict functions, and for
// response_format; output_parser then always finds the required calls or content in the output.
//
// Reasoning may come first where the format has it (<think>, Harmony's analysis) and is free text without a
// limit of its own. Any thread. Errors: invalid_request, with the schema's path (grammar.hpp).
#pragma once

#include <boost/json/value.hpp>
#include <memory>
#include <span>
#include <string>

#include "engine/base/error.hpp"
#include "engine/chat/output_frame.hpp"
#include "engine/grammar/grammar.hpp"

namespace orcd::engine {

/// One call of one of the tools, or several.
[[nodiscard]] result<std::shared_ptr<const grammar::program>> make_call_grammar(
    const output_frame& frame, const offered_calls& offered, const grammar::token_table& tokens);

/// Any output in which calls of strict tools have valid arguments: what opens a call must be followed by the
/// rest of one. Arguments of the other tools are restricted to what the format takes for arguments only where
/// that is needed to find the end of a call: in all but harmony, in llama3 and glm for a call with a known
/// name. An object that llama3 would take for a call of an unknown function is excluded. Not for the generic
/// form, which leaves nothing free (make_generic_grammar).
[[nodiscard]] result<std::shared_ptr<const grammar::program>> make_open_grammar(
    const output_frame& frame, std::span<const callable> tools, const grammar::token_table& tokens);

/// In the generic form: a response that is a text, or calls of the tools. Where the prompt ended within a
/// response, the rest of it.
[[nodiscard]] result<std::shared_ptr<const grammar::program>> make_generic_grammar(
    const output_frame& frame, const offered_calls& offered, const grammar::token_table& tokens);

/// An answer that is valid under `schema`, or any JSON object when it is null; where tools are offered, such
/// an answer or calls.
[[nodiscard]] result<std::shared_ptr<const grammar::program>> make_response_grammar(
    const output_frame& frame, const boost::json::value* schema, const grammar::schema_options& options,
    const grammar::token_table& tokens, const offered_calls& offered = {});

/// An answer that is a text of this grammar. Errors name `param` and the place in the grammar.
[[nodiscard]] result<std::shared_ptr<const grammar::program>> make_text_grammar(
    const output_frame& frame, const grammar::text_grammar& text, const std::string& param,
    const grammar::token_table& tokens);

}  // namespace orcd::engine
