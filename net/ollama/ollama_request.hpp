// The bodies of POST /api/chat and POST /api/generate, ollama's own: bytes to a validated request. Pure: no
// socket, no tokenizer. Source: ollama's API documentation. Private to net/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/completion/completion_request.hpp"

namespace orcd::net {

/// Errors: as parse_completion, in ollama's names of fields.
[[nodiscard]] engine::result<completion_request> parse_ollama_chat(std::string_view body,
                                                                   const completion_limits& limits);
/// A prompt that goes through the template as a user's message, behind `system`; with `raw` as it is, and
/// with `suffix` as a gap to be filled.
[[nodiscard]] engine::result<completion_request> parse_ollama_generate(std::string_view body,
                                                                       const completion_limits& limits);

enum class ollama_use { chat, generate };

/// A chat without messages and a prompt without text ask only for the model to be loaded: the model's name,
/// as an answer has it. Nothing for every other body. Errors: as the functions above, for a body of this
/// kind.
[[nodiscard]] engine::result<std::optional<std::string>> asks_to_load(ollama_use use, std::string_view body,
                                                                      const completion_limits& limits);

}  // namespace orcd::net
