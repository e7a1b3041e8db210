#include "net/http/request_gate.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>

#include "net/http/cors.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t names_max = 64;
constexpr std::size_t name_bytes_max = 253;

/// The name or address in "name:port" or "[address]:port"; the port may be absent.
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(1, end - 1);
  }
  return host.substr(0, host.find(':'));
}

std::string_view without_last_dot(std::string_view name) {
  if (name.size() > 1 && name.ends_with('.')) name.remove_suffix(1);
  return name;
}

bool is_loopback(std::string_view name) {
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(std::string(name), ec);
  if (ec) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

bool is_address(std::string_view name) {
  boost::system::error_code ec;
  static_cast<void>(boost::asio::ip::make_address(std::string(name), ec));
  return !ec;
}

/// Browsers resolve names under localhost to this machine themselves.
bool is_local_name(std::string_view name) {
  constexpr std::string_view local = "localhost";
  if (same_ignoring_case(name, local)) return true;
  return name.size() > local.size() + 1 && name[name.size() - local.size() - 1] == '.' &&
         same_ignoring_case(name.substr(name.size() - local.size()), local);
}

bool is_own(std::string_view host, const host_rules& rules) {
  const auto name = without_last_dot(without_port(host));
  if (is_local_name(name) || is_loopback(name)) return true;
  if (rules.any_address && is_address(name)) return true;
  return std::any_of(rules.names.begin(), rules.names.end(),
                     [name](const std::string& own) { return same_ignoring_case(own, name); });
}

/// scheme://authority of a URI; empty where there is none.
std::string_view origin_of(std::string_view uri) {
  const auto mark = uri.find("://");
  if (mark == std::string_view::npos) return {};
  return uri.substr(0, uri.find_first_of("/?#", mark + 3));
}

/// The authority of a URI or of a target in absolute form; empty where there is none.
std::string_view authority_of(std::string_view uri) {
  const auto origin = origin_of(uri);
  return origin.empty() ? origin : origin.substr(origin.find("://") + 3);
}

bool is_absolute(std::string_view target) {
  return !target.starts_with('/') && target.find("://") != std::string_view::npos;
}

/// Whether the page is the worker's own: its origin has the name that the request was sent to, also where a
/// proxy ends TLS in front of the worker.
bool is_own_origin(const request_sender& sender, const host_rules& rules) {
  if (!rules.public_origin.empty() && same_ignoring_case(sender.origin, rules.public_origin)) return true;
  const auto asked = authority_of(sender.origin);
  return !asked.empty() && same_ignoring_case(asked, sender.host) &&
         (sender.origin.starts_with("http://") || sender.origin.starts_with("https://"));
}

bool has_json_type(const request_sender& sender) noexcept {
  constexpr std::string_view json = "application/json";
  constexpr std::string_view suffix = "+json";
  const auto type = trimmed(sender.content_type.substr(0, sender.content_type.find(';')));
  if (same_ignoring_case(type, json)) return true;
  return type.size() > suffix.size() &&
         same_ignoring_case(type.substr(0, type.find('/') + 1), "application/") &&
         same_ignoring_case(type.substr(type.size() - suffix.size()), suffix);
}

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= name_bytes_max && std::all_of(text.begin(), text.end(), [](char c) {
    return is_alphanumeric(c) || c == '.' || c == '-' || c == '_' || c == ':';
  });
}

}  // namespace

host_rules make_host_rules(const host_facts& facts) {
  host_rules rules;
  const bool on_loopback = is_loopback(facts.address);
  rules.restricted = on_loopback || !facts.has_keys || !facts.allowed.empty();
  rules.any_address = !on_loopback;
  rules.names = {facts.machine, facts.address};
  if (const auto authority = authority_of(facts.public_uri); !authority.empty()) {
    rules.names.emplace_back(without_port(authority));
    rules.public_origin = origin_of(facts.public_uri);
  }
  rules.names.insert(rules.names.end(), facts.allowed.begin(), facts.allowed.end());
  return rules;
}

result<std::vector<std::string>> parse_host_names(std::string_view list) {
  std::vector<std::string> out;
  for (;;) {
    const auto end = list.find(',');
    auto name = trimmed(list.substr(0, end));
    if (name.size() > 2 && name.starts_with('[') && name.ends_with(']'))
      name = name.substr(1, name.size() - 2);
    if (!is_name(name) || out.size() == names_max) {
      return error(errc::invalid_request,
                   "must be up to " + std::to_string(names_max) +
                       " host names or addresses without ports, with commas between",
                   "allow-host");
    }
    out.emplace_back(without_last_dot(name));
    if (end == std::string_view::npos) return out;
    list.remove_prefix(end + 1);
  }
}

result<void> check_host(const request_sender& sender, const host_rules& rules) {
  if (!rules.restricted) return {};
  const bool own = (sender.host.empty() || is_own(sender.host, rules)) &&
                   (!is_absolute(sender.target) || is_own(authority_of(sender.target), rules));
  if (own) return {};
  return error(errc::forbidden, "Host is no name of this worker; --allow-host adds one");
}

result<void> check_page(const request_sender& sender, const host_rules& rules,
                        const std::vector<std::string>& origins) {
  if (sender.method != "POST" && sender.method != "DELETE") return {};
  if (!origins.empty() && origins.front() == "*") return {};
  if (!allowed_origin(origins, sender.origin).empty()) return {};
  const bool own = sender.origin.empty() || is_own_origin(sender, rules);
  const bool from_elsewhere =
      !sender.fetch_site.empty() && sender.fetch_site != "same-origin" && sender.fetch_site != "none";
  if (own && !from_elsewhere) return {};
  return error(errc::forbidden, "pages of other origins may not ask this worker; --cors-origins allows them");
}

std::optional<reply> check_body_type(const request_sender& sender) {
  if (sender.method != "POST" || !sender.has_body) return std::nullopt;
  const auto coding = trimmed(sender.content_encoding);
  if (!coding.empty() && !same_ignoring_case(coding, "identity")) {
    reply refused = make_protocol_reply(
        415, "a body must be sent as it is: compressed ones (Content-Encoding) are not read");
    refused.headers.emplace_back("Accept-Encoding", "identity");
    return refused;
  }
  if (has_json_type(sender)) return std::nullopt;
  return make_protocol_reply(415, "a body must be sent as Content-Type: application/json");
}

}  // namespace orcd::net
