// The endpoints that answer at once. No socket. Private to net/.
#pragma once

#include "net/http_request.hpp"
#include "net/routes.hpp"
#include "net/service.hpp"

namespace orcd::net {

/// The response of any endpoint that runs no job.
[[nodiscard]] reply answer(service& s, endpoint target, const http_request& request);

}  // namespace orcd::net
