// What /health, /live and /ready say: pure functions of published state, so that they answer in microseconds
// and never touch the accelerator. Source: M0-W-1320, M0-W-1604, WORK-3015, 3041.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/worker_state.hpp"
#include "net/http/respond.hpp"

namespace orcd::net {

/// The prefix cache at one moment.
struct cache_facts {
  std::uint64_t queries = 0;       ///< jobs that asked for a prefix
  std::uint64_t hits = 0;          ///< those that found one
  std::uint64_t query_tokens = 0;  ///< prompt tokens of the jobs that asked
  std::uint64_t hit_tokens = 0;    ///< prompt tokens that were not computed because of a hit
  std::uint64_t evictions = 0;     ///< pages given up for a job
  std::uint64_t set_backs = 0;     ///< running jobs that gave their pages to older ones
  std::uint32_t pages_cached = 0;
  std::uint32_t pages_used = 0;  ///< by running jobs
  std::uint32_t sessions = 0;
  std::uint32_t window_pages = 0;       ///< of layers with a window; 0: they have none of their own
  std::uint32_t window_pages_used = 0;  ///< by running jobs
  std::uint32_t boundaries = 0;         ///< positions at which prefixes can be shared
  std::uint64_t boundaries_given_up = 0;
};

/// Everything the three endpoints depend on, gathered in one moment.
struct health_facts {
  engine::lifecycle lifecycle = engine::lifecycle::starting;
  engine::health_cause cause = engine::health_cause::none;
  bool draining = false;  ///< admission refuses new jobs
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::chrono::milliseconds step_age{0};  ///< since the last sign of progress; 0 while no job runs
  std::chrono::milliseconds stall_threshold{0};
  std::chrono::seconds uptime{0};
  bool resident = false;
  std::uint64_t vram_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t adapters_bytes = 0;  ///< of the room for LoRA adapters
  std::uint64_t states_bytes = 0;    ///< what layers without attention keep of slots; 0: there are none
  std::uint32_t adapters = 0;        ///< that are loaded
  std::uint32_t adapters_max = 0;    ///< 0: there is no room for any, and nothing is said of them
  std::uint32_t load_percent = 0;
  engine::memory_counts memory{};
  cache_facts cache{};
};

/// `busy` is ready with a job running; a drain wins over both.
[[nodiscard]] engine::lifecycle shown_state(const health_facts& facts) noexcept;
/// A job runs and the accelerator has not finished a step for longer than the threshold.
[[nodiscard]] bool is_stalled(const health_facts& facts) noexcept;
/// unhealthy when published so, failed or stalled.
[[nodiscard]] engine::health_status shown_health(const health_facts& facts) noexcept;
/// Why it is not healthy; empty when it is.
[[nodiscard]] std::string health_reason(const health_facts& facts);

/// 503 when unhealthy alone: 200 also before the worker is ready, for who checks its address then (the model
/// is loaded when the server listens), and while it drains.
[[nodiscard]] reply make_health_reply(const health_facts& facts, const engine::worker_identity& identity);
/// 503 only when stalled.
[[nodiscard]] reply make_live_reply(const health_facts& facts);
/// 200 when a request would be accepted now; a full queue does not count, it answers 429 per request.
[[nodiscard]] reply make_ready_reply(const health_facts& facts);

}  // namespace orcd::net
