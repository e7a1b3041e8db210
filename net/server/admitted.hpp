// What holds of a request that another engine let in before this one took it over. io thread only. Private to
// net/server.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "net/http/connection.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// Such a request stays in, whatever keys, names and limits this engine has.
[[nodiscard]] bool is_admitted(const connection& c) noexcept;

/// How long the body of the request that comes next may be.
[[nodiscard]] std::uint64_t body_limit_of(const service& s, const connection& c) noexcept;

/// Whose request it is, by the values of its Authorization and X-Api-Key headers; nullopt where it shows no
/// key that is asked for.
[[nodiscard]] std::optional<key_owner> owner_of(const service& s, const connection& c,
                                                std::string_view authorization, std::string_view x_api_key);

}  // namespace orcd::net
