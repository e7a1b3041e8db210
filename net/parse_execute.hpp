// The body of POST /execute: bytes to a validated request. Pure, no socket, no tokenizer; about 1.5 ns per
// byte, 50 us for 32 KiB (bench/parse_execute.cpp; the seed allows 1 ms).
// Source: M0-W-1300, 1302, 1603, WORK-3040, 3071, 3120.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/sampling/sampling.hpp"
#include "engine/schedule/job.hpp"
#include "net/server.hpp"

namespace orcd::net {

constexpr std::size_t job_id_bytes_max = 256;
constexpr std::size_t stop_strings_max = 16;
constexpr std::size_t stop_bytes_max = 256;
constexpr std::size_t cache_name_bytes_max = 256;  ///< cache_salt, imc_id
constexpr std::uint32_t repeat_last_n_max = 4'096;
constexpr std::uint32_t top_k_max = 1'000'000;

struct execute_request {
  std::string job_id;
  std::string prompt;  ///< valid UTF-8
  std::optional<std::uint32_t> max_tokens;
  engine::sampling_params sampling;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  bool parse_special = true;  ///< text of control tokens in the prompt is recognised
  bool ignore_eos = false;
  bool metrics = false;  ///< one `metrics` event before `end`
  std::optional<std::chrono::milliseconds> timeout;
  engine::cache_request cache;  ///< cache_prompt, cache_salt, imc_id
};

/// Errors: invalid_request naming the field, the limit and the value. A field that is null counts as
/// absent, except job_id and prompt; unknown and repeated fields are refused.
[[nodiscard]] engine::result<execute_request> parse_execute(std::string_view body,
                                                            const execute_limits& limits);

/// What the request calls its prompt and its token limit.
struct length_fields {
  std::string_view prompt = "prompt";
  std::string_view max_tokens = "max_tokens";
};

/// How many tokens the job may produce, given its prompt's length: what was asked for, or else as many
/// as fit. Errors: context_length_exceeded naming the counts. The last token needs no position of its own.
[[nodiscard]] engine::result<std::uint32_t> fit_to_context(std::optional<std::uint32_t> max_tokens,
                                                           std::size_t prompt_tokens,
                                                           const execute_limits& limits,
                                                           const length_fields& fields = {});

}  // namespace orcd::net
