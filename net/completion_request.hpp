// The bodies of POST /v1/chat/completions and /v1/completions: bytes to a validated request. A field is
// honoured or refused by name, never ignored; docs/api.md lists them. Pure: no socket, no tokenizer, no
// template. Source: issue 5, features.md (d) "OpenAI wire", WORK-3120. Private to net/.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/sampling/logprobs.hpp"
#include "engine/sampling/sampling.hpp"
#include "engine/schedule/job.hpp"
#include "net/output_demand.hpp"
#include "net/server.hpp"

namespace orcd::net {

constexpr std::size_t completion_stops_max = 4;
constexpr std::size_t messages_max = 4'096;
constexpr float logit_bias_max = 100.0F;

enum class completion_kind { chat, text };

struct completion_request {
  completion_kind kind = completion_kind::chat;

  boost::json::array messages;             ///< chat: checked, and as templates want them
  boost::json::object template_variables;  ///< chat: the caller's own, none of ours
  std::optional<std::string> chat_template;
  output_demand demand;                         ///< chat: what the output must look like
  std::optional<std::string> prompt;            ///< text: valid UTF-8, not empty
  std::vector<engine::token_id> prompt_tokens;  ///< text: instead of `prompt`

  std::optional<std::uint32_t> max_tokens;
  std::string_view max_tokens_field = "max_tokens";  ///< what the request calls it
  engine::sampling_params sampling;
  std::optional<std::uint64_t> seed;
  std::vector<std::string> stop;
  std::uint32_t choices = 1;
  bool stream = false;
  bool include_usage = false;    ///< a last chunk with the usage; streams only
  bool usage_in_chunks = false;  ///< and in each chunk that of its choice so far
  bool logprobs = false;
  std::uint32_t top_logprobs = 0;
  bool ignore_eos = false;
  engine::cache_request cache;  ///< cache_prompt, cache_salt, imc_id
  std::optional<std::chrono::milliseconds> timeout;
};

/// What a request may ask for, beyond execute_limits.
struct completion_limits {
  const execute_limits& lengths;
  std::string_view model;               ///< the only one there is
  std::uint32_t vocab = 0;              ///< token ids are below
  std::uint32_t choices_max = 1;        ///< slots
  bool request_template = false;        ///< a request may bring its own template
  std::uint32_t system_tokens_min = 1;  ///< shorter system prompts are not kept
};

/// Errors: invalid_request with the field as param, not_found for another model's name. A field that is null
/// counts as absent.
[[nodiscard]] engine::result<completion_request> parse_completion(std::string_view body, completion_kind kind,
                                                                  const completion_limits& limits);

}  // namespace orcd::net
