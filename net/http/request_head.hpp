// The head of an HTTP request as raw bytes, checked before Beast's parser sees it: whatever two servers could
// read in two ways is refused here, and so is what is too long or cannot be HTTP at all, as soon as the
// offending byte arrives. Pure and incremental. Source: RFC 9112.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace orcd::net {

struct head_limits {
  std::size_t bytes_max = 16 * 1024;
  std::size_t fields_max = 64;
  std::uint64_t body_bytes_max = 1024 * 1024;
};

/// Why a request is refused before it is routed; the connection is closed afterwards. Not an aggregate: it is
/// passed into coroutines (g++ 12 destroys aggregates twice there).
struct head_problem {
  unsigned status = 400;
  std::string message;

  head_problem() = default;
  head_problem(unsigned s, std::string text) : status(s), message(std::move(text)) {}
};

class head_scanner {
 public:
  explicit head_scanner(const head_limits& limits) : limits_(limits) {}

  enum class state { incomplete, complete, refused };

  /// `input` is all bytes received so far; bytes that were scanned before are not scanned again.
  [[nodiscard]] state scan(std::string_view input);
  [[nodiscard]] const head_problem& problem() const noexcept { return problem_; }
  /// Bytes of an empty line in front of the request, which some clients send after a body (RFC 9112 2.2).
  [[nodiscard]] std::size_t skipped() const noexcept { return skipped_; }
  /// The client waits for 100 Continue before it sends the body.
  [[nodiscard]] bool expects_continue() const noexcept { return expects_continue_; }

 private:
  [[nodiscard]] bool refuse(unsigned status, std::string message);
  [[nodiscard]] bool take_line(std::string_view line);
  [[nodiscard]] bool take_request_line(std::string_view line);
  [[nodiscard]] bool take_field(std::string_view line);
  [[nodiscard]] bool take_once(std::string_view name);
  [[nodiscard]] bool take_content_length(std::string_view value);
  [[nodiscard]] bool take_transfer_encoding(std::string_view value);
  [[nodiscard]] bool finish();

  static constexpr std::array<std::string_view, 6> given_once = {
      "Authorization", "X-Api-Key", "Content-Type", "Content-Encoding", "Origin", "Sec-Fetch-Site"};
  head_limits limits_;
  head_problem problem_;
  std::array<bool, given_once.size()> given_{};
  std::size_t scanned_ = 0;
  std::size_t skipped_ = 0;
  std::size_t line_start_ = 0;
  std::size_t lines_ = 0;
  unsigned hosts_ = 0;
  bool minor_zero_ = false;
  bool chunked_ = false;
  bool expects_continue_ = false;
  bool done_ = false;
  std::optional<std::uint64_t> content_length_;
};

}  // namespace orcd::net
