// Requests to etcd's JSON gateway (/v3) and what its answers say. Pure; an answer is checked in every field
// that is used, since whatever listens at the address may have sent it. Errors: invalid_request, one clause.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/discovery/registration.hpp"
#include "net/http/http_url.hpp"

namespace orcd::net {

/// Longest answer that is read.
constexpr std::size_t etcd_answer_bytes_max = 64U * 1024U;

/// etcd://HOST:PORT, or etcd://HOST with port 2379; an IPv6 address in brackets.
[[nodiscard]] engine::result<http_url> parse_etcd_url(std::string_view url);
/// Printable, with no line end, up to 512 bytes; one '/' between it and the worker's id.
[[nodiscard]] engine::result<void> check_etcd_prefix(std::string_view prefix);
[[nodiscard]] std::string etcd_key(std::string_view prefix, std::string_view worker_id);

/// What is told about the worker.
struct discovery_entry {
  std::string uri;
  std::string model;
  std::uint32_t engine_id = 0;
};

/// Path and body of a POST.
struct etcd_request {
  std::string target;
  std::string body;
};

[[nodiscard]] etcd_request etcd_grant(std::chrono::seconds ttl);
[[nodiscard]] etcd_request etcd_read(std::string_view key);
/// Writes the entry if the key's revision is still `replaces`.
[[nodiscard]] etcd_request etcd_put(std::string_view key, const discovery_entry& entry, std::uint64_t epoch,
                                    std::int64_t lease, std::int64_t replaces);
[[nodiscard]] etcd_request etcd_keep(std::int64_t lease);
[[nodiscard]] etcd_request etcd_revoke(std::int64_t lease);

struct granted_lease {
  std::int64_t id = 0;
  std::chrono::milliseconds ttl{};
};
struct read_entry {
  registered_entry entry;
  std::int64_t revision = 0;  ///< of the store
};

[[nodiscard]] engine::result<granted_lease> read_granted(std::string_view body);
/// `key` is the one that was asked for.
[[nodiscard]] engine::result<read_entry> read_found(std::string_view body, std::string_view key);
[[nodiscard]] engine::result<bool> read_written(std::string_view body);
/// nullopt: the store does not know the lease `id`.
[[nodiscard]] engine::result<std::optional<std::chrono::milliseconds>> read_kept(std::string_view body,
                                                                                 std::int64_t id);

}  // namespace orcd::net
