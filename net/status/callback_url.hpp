// The address of the ready callback, taken apart. Pure. Source: WORK-3014.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::net {

struct callback_url {
  bool tls = false;
  std::string host;       ///< without the brackets of an IPv6 address
  std::string port;       ///< "80" and "443" when not given
  std::string authority;  ///< as the Host header wants it
  std::string target;     ///< the path of the endpoint

  /// For logs and messages; holds nothing secret.
  [[nodiscard]] std::string shown() const { return (tls ? "https://" : "http://") + authority + target; }
};

/// Accepts http://host[:port][/base] and https://...; refuses user info, query and fragment.
/// Error: invalid_request, which never repeats user info.
[[nodiscard]] engine::result<callback_url> parse_callback_url(std::string_view url);

}  // namespace orcd::net
