#include "net/parse_execute.hpp"

#include <algorithm>
#include <utility>

#include "net/execute_fields.hpp"
#include "net/field_checks.hpp"
#include "net/json_reader.hpp"

namespace orcd::net {

using engine::errc;
using engine::error;
using engine::result;

result<execute_request> parse_execute(std::string_view body, const execute_limits& limits) {
  execute_fields fields(limits);
  if (const auto read = read_json_object(body, fields); !read) return read.error();
  return std::move(fields).finish();
}

result<std::uint32_t> fit_to_context(std::optional<std::uint32_t> max_tokens, std::size_t prompt_tokens,
                                     const execute_limits& limits, const length_fields& fields) {
  const std::string counted = "the prompt has " + std::to_string(prompt_tokens) + " tokens";
  const auto too_long = [](std::string message, std::string_view param) {
    return error(errc::context_length_exceeded, std::move(message), std::string(param));
  };
  if (prompt_tokens == 0) return refuse_field(fields.prompt, "encodes to no token");
  if (limits.tokens_in_max > 0 && prompt_tokens > limits.tokens_in_max) {
    return too_long(counted + ", the limit is " + std::to_string(limits.tokens_in_max), fields.prompt);
  }
  if (prompt_tokens > limits.context_tokens) {
    return too_long(counted + ", the context holds " + std::to_string(limits.context_tokens), fields.prompt);
  }
  const std::uint64_t fits = limits.context_tokens - prompt_tokens + 1;
  if (!max_tokens) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(fits, limits.tokens_out_max));
  }
  if (*max_tokens > fits) {
    return too_long(counted + " and '" + std::string(fields.max_tokens) + "' is " +
                        std::to_string(*max_tokens) + ": together " +
                        std::to_string(prompt_tokens + *max_tokens - 1) + " positions, the context holds " +
                        std::to_string(limits.context_tokens),
                    fields.max_tokens);
  }
  return *max_tokens;
}

}  // namespace orcd::net
