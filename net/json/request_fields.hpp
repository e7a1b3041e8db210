// Header fields with a meaning of our own: X-Deadline and X-Request-Id. Pure, except for the random numbers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::net {

/// A point in time: RFC 3339 with a zone ("2026-01-02T03:04:05.678Z", "...+02:00") or milliseconds since
/// 1970 ("1767323045678"). Error: invalid_request.
[[nodiscard]] engine::result<std::chrono::system_clock::time_point> parse_deadline(std::string_view text);

/// Whether a client's x-request-id may be echoed and logged: [A-Za-z0-9._-]{1,128}.
[[nodiscard]] bool is_request_id(std::string_view text) noexcept;

/// 64 bits from the kernel's random device.
[[nodiscard]] std::uint64_t random_bits();

/// 32 hexadecimal digits, for requests that bring no usable id.
[[nodiscard]] std::string make_request_id();

}  // namespace orcd::net
