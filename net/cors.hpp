// Which pages of other origins may read the answers: none unless the operator lists them. Pure.
// Source: issue 5, Fetch standard (CORS protocol).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::net {

/// "https://a.example,http://localhost:3000" or "*". Errors: invalid_request.
[[nodiscard]] engine::result<std::vector<std::string>> parse_origins(std::string_view list);

/// What Access-Control-Allow-Origin says to a request with this Origin header; empty: the header is not sent.
[[nodiscard]] std::string allowed_origin(const std::vector<std::string>& origins, std::string_view origin);

}  // namespace orcd::net
