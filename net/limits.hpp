// The limits that requests and connections are held to. What an operator may change is in structs that app/
// fills from its options; the others are constants. Source: M0-W-1300..1302, WORK-3040, 3120.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "engine/sampling/sampling.hpp"
#include "engine/sampling/sampling_ranges.hpp"

namespace orcd::net {

constexpr std::size_t job_id_bytes_max = 256;
constexpr std::size_t stop_strings_max = 16;
constexpr std::size_t stop_bytes_max = 256;
constexpr std::size_t cache_name_bytes_max = 256;  ///< cache_salt, imc_id
using engine::repeat_last_n_max;
using engine::top_k_max;

enum class deadline_mode { enforce, log };

/// What a request may ask for; app/ sets it from its options, once for /execute and once for all others.
struct request_limits {
  std::uint32_t prompt_chars_max = 32'768;  ///< Unicode code points, M0-W-1300
  std::uint32_t tokens_in_max = 0;          ///< prompt tokens; 0 = the context
  std::uint32_t tokens_out_max = 2'048;
  /// max_tokens is an upper bound, as in OpenAI's API: more than there is room for is what there is room for.
  bool tokens_out_is_bound = false;
  std::uint32_t context_tokens = 0;  ///< positions per slot
  std::chrono::milliseconds inference_timeout{300'000};
  deadline_mode deadlines = deadline_mode::enforce;
  engine::sampling_params sampling{};   ///< of a request that does not say it
  std::optional<std::uint64_t> seed{};  ///< likewise; nothing: another one for each request

  /// The longest timeout_ms that a request may ask for.
  [[nodiscard]] std::uint64_t timeout_ms_max() const noexcept {
    const auto longest = inference_timeout.count();
    if (longest > 0) return static_cast<std::uint64_t>(longest);
    // No limit but what the clock, which counts nanoseconds, can hold.
    return std::uint64_t{std::numeric_limits<std::int64_t>::max()} / 1'000'000;
  }
};

/// Bounds on connections and bytes; every wait of a session ends by one of these (read_limit: at most twice).
struct connection_limits {
  std::size_t connections_max = 1'024;
  /// Connections beyond connections_max that serve only probes (/live, /ready, /health, /metrics).
  std::size_t connections_reserved = 16;
  /// Finished answers that may wait for their readers; beyond that the one that waits longest is closed.
  std::size_t unread_answers_max = 64;
  std::size_t connections_per_address = 0;  ///< an IPv4 address or an IPv6 /64; 0 = any number
  std::size_t header_bytes_max = 16 * 1024;
  std::size_t body_bytes_max = 1024 * 1024;
  std::chrono::seconds header_timeout{10};
  std::chrono::seconds body_timeout{30};
  std::chrono::seconds idle_timeout{75};
  std::chrono::seconds write_timeout{15};  ///< how long a client may leave what was sent unread
  std::chrono::milliseconds keep_alive_interval{15'000};  ///< SSE comment after this much silence
};

}  // namespace orcd::net
