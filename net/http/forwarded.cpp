#include "net/http/forwarded.hpp"

#include <algorithm>
#include <optional>

#include "net/json/text.hpp"

namespace orcd::net {
namespace {

namespace ip = boost::asio::ip;
using boost::system::error_code;
using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t proxies_max = 64;

/// An address is the network of itself.
std::optional<proxy_network> parse_proxy(std::string_view text) {
  error_code failed;
  if (text.find('/') == std::string_view::npos) {
    const auto address = ip::make_address(std::string(text), failed);
    if (failed) return std::nullopt;
    if (address.is_v4()) return ip::network_v4(address.to_v4(), 32);
    return ip::network_v6(address.to_v6(), 128);
  }
  const auto four = ip::make_network_v4(std::string(text), failed);
  if (!failed) return four;
  const auto six = ip::make_network_v6(std::string(text), failed);
  if (!failed) return six;
  return std::nullopt;
}

bool is_in(const ip::address& address, const proxy_network& network) {
  if (const auto* four = std::get_if<ip::network_v4>(&network)) {
    return address.is_v4() &&
           ip::network_v4(address.to_v4(), four->prefix_length()).network() == four->network();
  }
  const auto& six = std::get<ip::network_v6>(network);
  return address.is_v6() && ip::network_v6(address.to_v6(), six.prefix_length()).network() == six.network();
}

}  // namespace

result<std::vector<proxy_network>> parse_proxies(std::string_view list) {
  std::vector<proxy_network> out;
  for (;;) {
    const auto end = list.find(',');
    const auto proxy = parse_proxy(trimmed(list.substr(0, end)));
    if (!proxy || out.size() == proxies_max) {
      return error(errc::invalid_request,
                   "must be up to " + std::to_string(proxies_max) +
                       " addresses or networks such as 10.0.0.0/8, with commas between",
                   "trusted-proxies");
    }
    out.push_back(*proxy);
    if (end == std::string_view::npos) return out;
    list.remove_prefix(end + 1);
  }
}

ip::address client_address(const ip::address& peer, std::string_view x_forwarded_for,
                           const std::vector<proxy_network>& trusted) {
  ip::address at = peer;
  const auto is_trusted = [&trusted](const ip::address& who) {
    return std::any_of(trusted.begin(), trusted.end(), [&who](const auto& one) { return is_in(who, one); });
  };
  while (!x_forwarded_for.empty() && is_trusted(at)) {
    const auto comma = x_forwarded_for.rfind(',');
    const auto last = comma == std::string_view::npos ? x_forwarded_for : x_forwarded_for.substr(comma + 1);
    error_code failed;
    const auto before = ip::make_address(std::string(trimmed(last)), failed);
    if (failed) break;
    at = before;
    x_forwarded_for = comma == std::string_view::npos ? std::string_view() : x_forwarded_for.substr(0, comma);
  }
  return at;
}

}  // namespace orcd::net
