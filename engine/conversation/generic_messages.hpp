// Tools in text, for a template that knows none: the tools and the form of an answer in the system message,
// past calls in the form in which the model writes them, results as messages of the user. Pure; any thread.
// Source: llama.cpp's generic format of tool calls.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>

namespace orcd::engine {

/// The part of a system message that tells the model what it may call, and how. `parallel`: several at once.
[[nodiscard]] std::string generic_instructions(const boost::json::array& tools, bool parallel);

/// Whether a prompt has such instructions: there are templates that leave system messages out.
[[nodiscard]] bool has_generic_instructions(std::string_view prompt) noexcept;

/// Writes calls and results as text. The messages are checked as adapt_messages() wants them
/// (message_habits.hpp) and have no other members for tools afterwards. Neighbours that became messages of
/// the user are one, because templates want turns to alternate. `parallel`: one call alone is written as one
/// of a list, too.
void write_calls_as_text(boost::json::array& messages, bool parallel);

/// The same for a request that offers tools: its answers have the form of a response, too, and the
/// instructions stand at the end of the first system message, or before all messages.
void write_tools_as_text(boost::json::array& messages, const boost::json::array& tools, bool parallel);

}  // namespace orcd::engine
