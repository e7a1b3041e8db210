#include "net/server/admitted.hpp"

#include <algorithm>

namespace orcd::net {

bool is_admitted(const connection& c) noexcept {
  return c.recovered && (c.recovered->flags & journal_admitted) != 0;
}

std::uint64_t body_limit_of(const service& s, const connection& c) noexcept {
  const std::uint64_t limit = s.config.connections.body_bytes_max;
  return is_admitted(c) ? std::max<std::uint64_t>(limit, c.recovered->input.size()) : limit;
}

std::optional<key_owner> owner_of(const service& s, const connection& c, std::string_view authorization,
                                  std::string_view x_api_key) {
  auto owner = s.config.keys.get()->owner_of(authorization, x_api_key);
  if (!owner && is_admitted(c)) owner = api_keys::owner_elsewhere(authorization, x_api_key);
  return owner;
}

}  // namespace orcd::net
