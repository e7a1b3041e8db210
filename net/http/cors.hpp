// Which pages of other origins may read the answers: none unless the operator lists them. Pure. Source: Fetch
// standard (CORS protocol).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::net {

/// "https://a.example,http://a.example:3000" or "*"; "localhost" among them means every origin on the
/// client's own machine: localhost, 127.0.0.1 and [::1], with http or https and any port. Errors:
/// invalid_request.
[[nodiscard]] engine::result<std::vector<std::string>> parse_origins(std::string_view list);

/// The value of Access-Control-Allow-Origin for a request with this Origin header; empty: the header is not
/// sent.
[[nodiscard]] std::string allowed_origin(const std::vector<std::string>& origins, std::string_view origin);

}  // namespace orcd::net
