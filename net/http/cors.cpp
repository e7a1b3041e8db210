#include "net/http/cors.hpp"

#include <algorithm>

#include "net/json/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr std::size_t origins_max = 64;
constexpr std::size_t origin_bytes_max = 512;

/// scheme://host[:port] without a path, as browsers send it.
bool is_origin(std::string_view text) {
  if (text.size() > origin_bytes_max) return false;
  const auto mark = text.find("://");
  if (mark == std::string_view::npos || mark == 0 || mark + 3 == text.size()) return false;
  const auto host = text.substr(mark + 3);
  return std::all_of(host.begin(), host.end(),
                     [](char c) {
                       return is_alphanumeric(c) || c == '.' || c == '-' || c == ':' || c == '[' || c == ']';
                     }) &&
         std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(mark),
                     [](char c) { return is_alphanumeric(c) || c == '-' || c == '+' || c == '.'; });
}

constexpr std::string_view this_machine = "localhost";

bool is_on_this_machine(std::string_view origin) {
  const auto mark = origin.find("://");
  if (mark == std::string_view::npos) return false;
  const auto scheme = origin.substr(0, mark);
  if (scheme != "http" && scheme != "https") return false;
  const auto authority = origin.substr(mark + 3);
  for (const std::string_view host :
       {this_machine, std::string_view("127.0.0.1"), std::string_view("[::1]")}) {
    if (!authority.starts_with(host)) continue;
    const auto port = authority.substr(host.size());
    if (port.empty()) return true;
    return port.size() > 1 && port.front() == ':' && std::all_of(port.begin() + 1, port.end(), is_digit);
  }
  return false;
}

}  // namespace

result<std::vector<std::string>> parse_origins(std::string_view list) {
  if (list == "*") return std::vector<std::string>{"*"};
  std::vector<std::string> out;
  for (;;) {
    const auto end = list.find(',');
    const auto origin = trimmed(list.substr(0, end));
    if ((!is_origin(origin) && origin != this_machine) || out.size() == origins_max) {
      return error(errc::invalid_request,
                   "must be * or up to " + std::to_string(origins_max) +
                       " origins such as https://a.example or localhost, with commas between",
                   "cors-origins");
    }
    out.emplace_back(origin);
    if (end == std::string_view::npos) return out;
    list.remove_prefix(end + 1);
  }
}

std::string allowed_origin(const std::vector<std::string>& origins, std::string_view origin) {
  if (origins.empty() || origin.empty()) return {};
  if (origins.front() == "*") return "*";
  const auto has = [&origins](std::string_view text) {
    return std::find(origins.begin(), origins.end(), text) != origins.end();
  };
  const bool listed =
      (has(origin) && origin != this_machine) || (has(this_machine) && is_on_this_machine(origin));
  return listed ? std::string(origin) : std::string();
}

}  // namespace orcd::net
