// Begins and ends what is noted of one request for its spans. io thread only. Private to net/.
#pragma once

#include <boost/beast/http/fields.hpp>
#include <optional>

#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"
#include "net/traces/request_trace.hpp"

namespace orcd::net {

/// While it lives, `c.trace` is where the request's times and answer are noted; then they go to the exporter.
/// Probes, and requests that the sampler leaves out, have nothing noted.
class traced_request {
 public:
  /// `head`: the request's header fields.
  traced_request(service& s, connection& c, const http_request& request,
                 const boost::beast::http::fields& head);
  ~traced_request();
  traced_request(const traced_request&) = delete;
  traced_request& operator=(const traced_request&) = delete;

 private:
  service& service_;
  connection& connection_;
  std::optional<request_trace> trace_;
};

}  // namespace orcd::net
