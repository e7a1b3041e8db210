// An answer that takes long to make or to render: a background thread does both. io thread only. Private to
// net/.
#pragma once

#include <functional>

#include "net/http/asio.hpp"
#include "net/http/http_request.hpp"
#include "net/jobs/run_in_background.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// Writes what `make`, which must own all that it needs, returns. Returns as write_reply does.
asio::awaitable<bool> write_from_background(service& s, connection& c, const http_request& request,
                                            background_plan plan, std::function<reply()> make);

}  // namespace orcd::net
