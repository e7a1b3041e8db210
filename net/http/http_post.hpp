// One POST to something that this worker tells of itself: the pool manager, the discovery store, the
// collector of traces. A connection for each request, no redirect, plain or TLS. The caller bounds the time,
// by giving up the coroutine. Private to net/.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "net/http/asio.hpp"
#include "net/http/http_url.hpp"

namespace orcd::net {

/// What came of one request.
struct http_answer {
  unsigned status = 0;      ///< 0: there is no answer, and `failure` says why
  std::string body;         ///< whole; empty where it was not asked for, or could not be read
  std::string retry_after;  ///< the header Retry-After as received, if it is short
  /// Why there is no answer, or no body though there is a status; else empty.
  std::string failure = "no answer in time";

  [[nodiscard]] std::string shown() const {
    if (status == 0) return failure;
    return "HTTP status " + std::to_string(status) + (failure.empty() ? "" : ", " + failure);
  }
  /// What Retry-After asks for where it is a number of seconds, and not a date; an hour at most.
  [[nodiscard]] std::optional<std::chrono::seconds> asked_wait() const noexcept;
};

/// A POST of JSON; the connection is closed after its answer.
[[nodiscard]] std::string make_post(const http_url& to, std::string_view target, std::string_view body);

/// Sends `request` and reads the answer: its head, and its body where that may have more than 0 bytes.
/// `request`, `to` and `out` must live until it is over.
asio::awaitable<void> post_once(const http_url& to, const std::string& request, std::size_t body_bytes_max,
                                http_answer& out);

/// A wait that may be given up.
asio::awaitable<void> wait_until(std::chrono::steady_clock::time_point end);

}  // namespace orcd::net
