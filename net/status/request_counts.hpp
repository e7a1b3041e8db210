// Requests as an operator asks about them: by route and class of status, refusals by whose fault they were,
// and what each API key has used. Bounded: routes are those of the table, keys as many as a file may have. io
// thread only. Private to net/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "net/status/metrics_text.hpp"

namespace orcd::net {

/// Whose fault a refusal or a failure is.
enum class failure_cause {
  client,       ///< the request: wrong, unknown, too long, without a right
  deadline,     ///< its time was up before it was answered
  overload,     ///< the queue is full
  unavailable,  ///< the worker drains or is not ready
  fault,        ///< anything else: the worker's
  count
};
[[nodiscard]] failure_cause cause_of(engine::errc code) noexcept;
[[nodiscard]] std::string_view to_string(failure_cause cause) noexcept;

class request_counts {
 public:
  /// Keys beyond are counted as one, "(others)".
  static constexpr std::size_t keys_max = 1'024;

  /// `route` is never freed; empty: none of the table's.
  void count(std::string_view route, unsigned status);
  void count(failure_cause cause) noexcept { ++failures_[static_cast<std::size_t>(cause)]; }

  struct usage {
    std::uint64_t requests = 0;
    std::uint64_t tokens_in = 0;
    std::uint64_t tokens_out = 0;
  };
  /// What a request of this key took.
  void add(const std::string& key_name, const usage& used);

  void render(metrics_text& out) const;

 private:
  static constexpr std::size_t classes = 5;  ///< 1xx to 5xx
  std::map<std::string_view, std::array<std::uint64_t, classes>> routes_;
  std::array<std::uint64_t, static_cast<std::size_t>(failure_cause::count)> failures_{};
  std::map<std::string, usage> keys_;
};

}  // namespace orcd::net
