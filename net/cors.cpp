#include "net/cors.hpp"

#include <algorithm>

#include "net/text.hpp"

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

}  // namespace

result<std::vector<std::string>> parse_origins(std::string_view list) {
  if (list == "*") return std::vector<std::string>{"*"};
  std::vector<std::string> out;
  for (;;) {
    const auto end = list.find(',');
    const auto origin = trimmed(list.substr(0, end));
    if (!is_origin(origin) || out.size() == origins_max) {
      return error(errc::invalid_request,
                   "must be * or up to " + std::to_string(origins_max) +
                       " origins such as https://a.example, with commas between",
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
  const bool listed = std::find(origins.begin(), origins.end(), origin) != origins.end();
  return listed ? std::string(origin) : std::string();
}

}  // namespace orcd::net
