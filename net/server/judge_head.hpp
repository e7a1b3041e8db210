// What becomes of a request by its head alone, before a byte of the body is read. io thread only. Private to
// net/server. Source: M0-W-1300..1350.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <variant>

#include "net/http/connection.hpp"
#include "net/http/http_request.hpp"
#include "net/http/routes.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

using request_parser = beast::http::request_parser<beast::http::string_body>;

/// The endpoint that serves the request, whose owner is set then, or the refusal.
[[nodiscard]] std::variant<endpoint, reply> judge_head(service& s, connection& c,
                                                       const request_parser& parser, http_request& request);

}  // namespace orcd::net
