// The address of something that this worker calls, taken apart. Pure. Source: WORK-3014.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::net {

struct http_url {
  bool tls = false;
  std::string host;       ///< without the brackets of an IPv6 address
  std::string port;       ///< "80" and "443" when not given
  std::string authority;  ///< as the Host header wants it
  std::string path;       ///< without slashes at its end; may be empty
  std::string own_path;   ///< as it was given; "/" where there was none

  /// Scheme, host and port: for logs where the path may be somebody's secret.
  [[nodiscard]] std::string origin() const { return (tls ? "https://" : "http://") + authority; }
  /// For logs and messages; holds nothing secret.
  [[nodiscard]] std::string shown() const { return origin() + path; }
};

/// Accepts http://host[:port][/base] and https://...; refuses user info, query and fragment.
/// Error: invalid_request, which never repeats user info.
[[nodiscard]] engine::result<http_url> parse_http_url(std::string_view url);

}  // namespace orcd::net
