// One line of the log for each request, and its place in the metrics, whatever became of it. io thread only.
// Private to net/server.
#pragma once

#include <string>
#include <string_view>

#include "net/http/http_request.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// While it lives, `c.note` is where the answer and the jobs of the request are noted.
class logged_request {
 public:
  /// `request` must outlive it; `forwarded` is the value of X-Forwarded-For.
  logged_request(service& s, connection& c, const http_request& request, std::string_view forwarded);
  ~logged_request();
  logged_request(const logged_request&) = delete;
  logged_request& operator=(const logged_request&) = delete;

 private:
  void tell(std::string_view route) const;

  service& service_;
  connection& connection_;
  const http_request& request_;
  std::string address_;
};

}  // namespace orcd::net
