// How a prompt ends where the answer continues a message, and what is kept of a prompt that may be cut. Pure.
// Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"
#include "engine/conversation/chat_format.hpp"
#include "net/completion/completion_request.hpp"

namespace orcd::net {

/// The messages with a mark behind the text of the last one, so that cut_at_mark() finds its end in what the
/// template makes of it.
[[nodiscard]] boost::json::array with_mark(boost::json::array messages);

/// Cuts a rendered prompt where the last message's text ends: what a template writes behind it would end the
/// message. Error: invalid_request where the template does not print the message's text.
[[nodiscard]] engine::result<void> cut_at_mark(engine::rendered_prompt& prompt);

/// Whether a prompt that was cut at its mark ends within a reasoning that the last message, or the template
/// in front of it, has begun with the format's mark. What earlier messages say of marks begins nothing.
[[nodiscard]] bool is_within_reasoning(const engine::rendered_prompt& prompt,
                                       const engine::output_format& format) noexcept;

/// Cuts a prompt as the request says. The answer's first `max_tokens` tokens (1 where it is not told) keep
/// their room in the context. Returns whether the prompt's beginning was cut off.
bool cut_prompt(std::vector<engine::token_id>& prompt, const prompt_shape& shape,
                std::uint32_t context_tokens, std::uint32_t max_tokens);

}  // namespace orcd::net
