// What GET /api/version, /api/tags and /api/ps and POST /api/show say of the model, in ollama's words. io
// thread only, but for parse_show. Private to net/.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/http/respond.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// The version of ollama whose API this is: clients tell by it what they may ask for.
inline constexpr std::string_view ollama_version = "0.12.11";

[[nodiscard]] reply answer_ollama_version();
/// The model once for each of its names, and the adapters.
[[nodiscard]] reply answer_ollama_tags(const service& s);
/// The same of what is loaded, which all of it is.
[[nodiscard]] reply answer_ollama_ps(const service& s);

/// The name in the body of POST /api/show, as it was sent. Errors: invalid_request.
[[nodiscard]] engine::result<std::string> parse_show(std::string_view body);
/// Error: not_found.
[[nodiscard]] reply answer_ollama_show(const service& s, std::string_view asked);

/// "134.52M", "8.0B": a number of parameters as ollama has it.
[[nodiscard]] std::string parameter_size(std::uint64_t parameters);

}  // namespace orcd::net
