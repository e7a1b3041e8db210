// Checks of every request that makes jobs, whatever its endpoint. Pure. Source: M0-W-1302. Private to net/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/http/http_request.hpp"
#include "net/limits.hpp"

namespace orcd::net {

/// The session that the header KRONK_IMC_ID names; empty without one. Error: invalid_request.
[[nodiscard]] engine::result<std::string> read_session(const http_request& request);

/// The refusal of a prompt of `tokens` where `most` fit, in the words of an API. Error:
/// context_length_exceeded with `field` as param.
using overflow_words = engine::error(std::size_t tokens, std::uint32_t most, std::string_view field);
/// In the worker's words.
[[nodiscard]] overflow_words prompt_too_long;
/// In the words from which programs written for OpenAI's API see that they must send less.
[[nodiscard]] overflow_words maximum_context_length;

/// The names of the request's fields for its prompt and its token limit, for messages.
struct length_fields {
  std::string_view prompt = "prompt";
  std::string_view max_tokens = "max_tokens";
  overflow_words* too_long = prompt_too_long;
};

/// Tokens that a prompt may have.
[[nodiscard]] std::uint32_t prompt_tokens_max(const request_limits& limits) noexcept;

/// How many tokens the job may produce, given its prompt's length: what was asked for, or else as many as
/// fit. Errors: context_length_exceeded naming the counts. The last token needs no position of its own.
[[nodiscard]] engine::result<std::uint32_t> fit_to_context(std::optional<std::uint32_t> max_tokens,
                                                           std::size_t prompt_tokens,
                                                           const request_limits& limits,
                                                           const length_fields& fields = {});

}  // namespace orcd::net
