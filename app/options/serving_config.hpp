// How the server serves, and what it and its model are called, by the operator's options and what the model
// file recommends. Pure, but for the names of this machine and of a folder.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "app/options/options.hpp"
#include "engine/served/sampling_defaults.hpp"
#include "net/http/request_gate.hpp"
#include "net/jobs/server_config.hpp"

namespace orcd::app {

/// As a --model-name: requests may call the model anything.
inline constexpr std::string_view any_model_name = "*";

/// "Qwen2.5-0.5B-Q4_K_M" for "file:///models/Qwen2.5-0.5B-Q4_K_M-00001-of-00002.gguf".
[[nodiscard]] std::string model_file_of(const std::string& location);

/// What answers, log and callback call the model: the first --model-name that is not *, else its file's name
/// in lower case.
[[nodiscard]] std::string model_name_of(const options& opts);

/// What requests to /execute may ask for and what holds where they do not say it, by the options alone; and
/// the same of all others, which do what the model's file recommends.
[[nodiscard]] net::request_limits execute_limits(const options& opts, std::uint32_t context_tokens);
[[nodiscard]] net::request_limits model_limits(const options& opts, std::uint32_t context_tokens,
                                               const engine::sampling_defaults& sampling);

/// Variables of the chat template that hold where a request sets none.
[[nodiscard]] boost::json::object template_defaults(const options& opts);

/// How long a request's body may be: long enough for a prompt that fills the context, also of a script whose
/// letters are escaped in JSON.
[[nodiscard]] std::uint64_t body_bytes_max(const options& opts, std::uint32_t context_tokens) noexcept;

/// This machine's; "localhost" where it tells none.
[[nodiscard]] std::string host_name();

/// The names that a Host field may hold.
[[nodiscard]] net::host_rules serving_hosts(const options& opts);

/// --public-uri, or http://HOST:PORT; a wildcard address is replaced by `hostname`.
[[nodiscard]] std::string public_uri(const options& opts, std::uint16_t port, const std::string& hostname);

/// All but the API keys and the names that a Host field may hold. `context_tokens` is that of a slot.
[[nodiscard]] net::server_config serving_config(const options& opts, std::uint32_t context_tokens,
                                                const engine::sampling_defaults& sampling);

}  // namespace orcd::app
