#include "net/http/http_url.hpp"

#include <algorithm>
#include <charconv>

#include "net/json/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t url_bytes_max = 2'048;

error refuse(std::string_view why) {
  return {errc::invalid_request, "the URL " + std::string(why)};
}

bool is_port(std::string_view text) {
  unsigned value = 0;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc{} && parsed.ptr == end && value >= 1 && value <= 65'535;
}

bool is_host(std::string_view text, bool bracketed) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return is_alphanumeric(c) || c == '.' || c == '-' || c == '_' || (bracketed && (c == ':' || c == '%'));
  });
}

/// Splits "host:port" or "[v6]:port".
result<void> read_authority(std::string_view authority, http_url& out) {
  const bool bracketed = authority.starts_with('[');
  const auto end = bracketed ? authority.find(']') : authority.find(':');
  if (bracketed && end == std::string_view::npos)
    return refuse("has an IPv6 address without its closing bracket");
  out.host = bracketed ? authority.substr(1, end - 1) : authority.substr(0, end);
  if (!is_host(out.host, bracketed)) return refuse("has no valid host name");
  auto rest =
      end == std::string_view::npos ? std::string_view() : authority.substr(bracketed ? end + 1 : end);
  out.port = out.tls ? "443" : "80";
  if (rest.empty()) return {};
  rest.remove_prefix(1);
  if (authority[authority.size() - rest.size() - 1] != ':' || !is_port(rest)) {
    return refuse("has a port that is not a number from 1 to 65535");
  }
  out.port = rest;
  return {};
}

}  // namespace

result<http_url> parse_http_url(std::string_view url) {
  if (url.size() > url_bytes_max) {
    return refuse("may have " + std::to_string(url_bytes_max) + " bytes, it has " +
                  std::to_string(url.size()));
  }
  const bool plain = std::all_of(url.begin(), url.end(), [](char c) { return c > 0x20 && c < 0x7F; });
  if (!plain) return refuse("holds a space, a control character or a byte outside ASCII");
  http_url out;
  out.own_path = "/";
  out.tls = url.starts_with("https://");
  if (!out.tls && !url.starts_with("http://")) return refuse("must begin with http:// or https://");
  if (url.find_first_of("?#") != std::string_view::npos) return refuse("must not have a query or a fragment");
  url.remove_prefix(out.tls ? 8 : 7);
  const auto slash = url.find('/');
  const auto authority = url.substr(0, slash);
  if (authority.find('@') != std::string_view::npos) return refuse("must not hold user info");
  if (const auto ok = read_authority(authority, out); !ok) return ok.error();
  out.authority = authority;
  if (slash != std::string_view::npos) out.own_path = url.substr(slash);
  std::string_view base = slash == std::string_view::npos ? std::string_view() : url.substr(slash);
  while (base.ends_with('/')) base.remove_suffix(1);
  out.path = base;
  return out;
}

}  // namespace orcd::net
