// Whose request it is that came through proxies: the address that the nearest trusted one vouches for.
// Source: X-Forwarded-For as nginx and HAProxy write it, each proxy at the end. Pure. Private to net/.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::net {

/// The proxies whose word counts.
using proxy_network = std::variant<boost::asio::ip::network_v4, boost::asio::ip::network_v6>;

/// "127.0.0.1,10.0.0.0/8,fd00::/8": up to 64 addresses and networks. Error: invalid_request.
[[nodiscard]] engine::result<std::vector<proxy_network>> parse_proxies(std::string_view list);

/// The peer, or what the header says of who asked it, from its end as far as proxies are trusted. What is no
/// address there ends the search: the last address that was found counts.
[[nodiscard]] boost::asio::ip::address client_address(const boost::asio::ip::address& peer,
                                                      std::string_view x_forwarded_for,
                                                      const std::vector<proxy_network>& trusted);

}  // namespace orcd::net
