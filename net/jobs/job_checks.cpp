#include "net/jobs/job_checks.hpp"

#include <algorithm>
#include <utility>

#include "engine/text/utf8.hpp"
#include "net/json/field_checks.hpp"

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;

result<std::string> read_session(const http_request& request) {
  if (!request.imc_id) return std::string();
  const std::size_t length = request.imc_id->size();
  const bool is_text = engine::utf8::valid_bytes(*request.imc_id) == length;
  if (length >= 1 && length <= cache_name_bytes_max && is_text) return *request.imc_id;
  return error(errc::invalid_request,
               "KRONK_IMC_ID must have 1 to " + std::to_string(cache_name_bytes_max) +
                   " bytes of UTF-8, it has " + std::to_string(length),
               "KRONK_IMC_ID");
}

error prompt_too_long(std::size_t tokens, std::uint32_t most, std::string_view field) {
  return {errc::context_length_exceeded,
          "the prompt has " + std::to_string(tokens) + " tokens, the limit is " + std::to_string(most),
          std::string(field)};
}

error maximum_context_length(std::size_t tokens, std::uint32_t most, std::string_view field) {
  const std::string name(field);
  return {errc::context_length_exceeded,
          "This model's maximum context length is " + std::to_string(most) + " tokens. However, your " +
              name + " resulted in " + std::to_string(tokens) + " tokens. Please reduce the length of the " +
              name + ".",
          name};
}

std::uint32_t prompt_tokens_max(const request_limits& limits) noexcept {
  if (limits.tokens_in_max == 0) return limits.context_tokens;
  return std::min(limits.tokens_in_max, limits.context_tokens);
}

result<std::uint32_t> fit_to_context(std::optional<std::uint32_t> max_tokens, std::size_t prompt_tokens,
                                     const request_limits& limits, const length_fields& fields) {
  if (prompt_tokens == 0) return refuse_field(fields.prompt, "encodes to no token");
  const std::uint32_t most = prompt_tokens_max(limits);
  if (prompt_tokens > most) return fields.too_long(prompt_tokens, most, fields.prompt);
  const std::uint64_t fits = limits.context_tokens - prompt_tokens + 1;
  const auto allowed = static_cast<std::uint32_t>(std::min<std::uint64_t>(fits, limits.tokens_out_max));
  if (!max_tokens) return allowed;
  if (limits.tokens_out_is_bound) return std::min(*max_tokens, allowed);
  if (*max_tokens > fits) {
    return error(errc::context_length_exceeded,
                 "the prompt has " + std::to_string(prompt_tokens) + " tokens and '" +
                     std::string(fields.max_tokens) + "' is " + std::to_string(*max_tokens) + ": together " +
                     std::to_string(prompt_tokens + *max_tokens - 1) + " positions, the context holds " +
                     std::to_string(limits.context_tokens),
                 std::string(fields.max_tokens));
  }
  return *max_tokens;
}

}  // namespace orcd::net
