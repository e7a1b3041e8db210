// Header fields with a meaning of our own, and ids. Pure, except for the random numbers.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "engine/base/error.hpp"

namespace orcd::net {

/// A point in time: RFC 3339 with a zone ("2026-01-02T03:04:05.678Z", "...+02:00") or milliseconds since
/// 1970 ("1767323045678"). Error: invalid_request.
[[nodiscard]] engine::result<std::chrono::system_clock::time_point> parse_deadline(std::string_view text);

/// Whether a client's x-request-id may be echoed and logged: [A-Za-z0-9._-]{1,128}.
[[nodiscard]] bool is_request_id(std::string_view text) noexcept;

/// 64 bits from the kernel's random device.
[[nodiscard]] std::uint64_t random_bits();

/// 32 hexadecimal digits.
[[nodiscard]] std::string digits_of(const std::array<std::uint64_t, 2>& bits);

/// 32 random hexadecimal digits.
[[nodiscard]] std::string make_request_id();

/// The ids of one answer, 32 hexadecimal digits each. They follow from the root and from how many came
/// before, so that an answer that is made again, by whichever process, has the same ones.
class id_series {
 public:
  explicit id_series(std::string root) : root_(std::move(root)) {}
  [[nodiscard]] std::string next();
  /// The next id as a number.
  [[nodiscard]] std::uint64_t next_bits();

 private:
  std::string root_;
  std::uint64_t count_ = 0;
};

/// The header Last-Event-ID: an event's id as decimal digits. Error: invalid_request.
[[nodiscard]] engine::result<std::uint32_t> parse_last_event_id(std::string_view text);

}  // namespace orcd::net
