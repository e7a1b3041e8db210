// What /metrics counts. Plain numbers: everything here is read and written on the io thread only, and a
// scrape touches neither the GPU thread nor CUDA. Rendering is Prometheus text format 0.0.4. Source:
// M0-W-1350, WORK-3081.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "engine/accelerator.hpp"
#include "engine/schedule/job.hpp"
#include "net/models/adapter_list.hpp"
#include "net/status/health.hpp"
#include "net/status/histogram.hpp"
#include "net/status/request_counts.hpp"

namespace orcd::net {

/// How a request to /execute ended.
enum class outcome { completed, cancelled, disconnected, timeout, error, refused, count };
[[nodiscard]] std::string_view to_string(outcome o) noexcept;

/// Where a job was when its client went away.
enum class phase { queued, prefill, decode, count };
[[nodiscard]] std::string_view to_string(phase p) noexcept;

struct server_metrics {
  server_metrics();

  std::array<std::uint64_t, static_cast<std::size_t>(outcome::count)> requests{};
  std::array<std::uint64_t, static_cast<std::size_t>(phase::count)> disconnects{};
  std::map<unsigned, std::uint64_t> responses;  ///< by HTTP status; a fixed set of statuses exists
  std::uint64_t tokens_in = 0;
  std::uint64_t tokens_out = 0;
  std::uint64_t connections_total = 0;
  std::uint64_t connections_refused = 0;
  request_counts counts;
  histogram duration_seconds;
  histogram first_token_seconds;
  histogram inter_token_seconds;
  histogram queue_seconds;
  histogram prefill_seconds;
  histogram decode_seconds;
  histogram cancel_to_idle_seconds;
  histogram deadline_remaining_seconds;

  /// Adds a finished job's figures, but for first_token_seconds, which is known earlier.
  void count_job(outcome how, const engine::job_stats& stats, double duration_ms);
};

/// The responses that /v1/responses keeps.
struct stored_facts {
  std::uint64_t bytes_max = 0;  ///< 0 = none are kept
  std::uint64_t bytes = 0;
  std::uint64_t responses = 0;
  std::uint64_t evicted = 0;  ///< given up for newer ones
};

/// Drafts of all jobs so far.
struct draft_facts {
  std::uint64_t steps = 0, tokens = 0, accepted = 0;
  std::array<std::uint64_t, engine::drafts_max> accepted_at{};  ///< by how many drafts came before
};

/// State that is read at the time of the scrape.
struct metrics_snapshot {
  std::string_view model, quant_kind, digest, backend, version;
  std::int32_t gpu_device = -1;
  std::uint32_t active_experts = 0;
  std::uint32_t slots = 1;
  std::uint64_t kv_positions = 0;      ///< in use by running jobs
  std::uint64_t kv_positions_max = 0;  ///< of all pages, or slots * context where that is less
  std::uint32_t kv_block_tokens = 0;
  std::uint64_t kv_blocks = 0;
  cache_facts cache{};
  draft_facts drafts{};
  std::uint64_t vram_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t post_ready_allocations = 0;
  bool resident = false;
  std::string_view state;   ///< starting, ready, busy, draining, failed
  std::string_view health;  ///< healthy, degraded, unhealthy
  double startup_seconds = 0;
  double load_seconds = 0;
  std::uint64_t load_bytes = 0;
  double uptime_seconds = 0;
  double step_age_seconds = 0;
  std::uint64_t steps = 0;
  std::uint32_t waiting = 0;
  std::uint32_t running = 0;
  std::size_t connections = 0;
  stored_facts stored{};
  shared_adapters adapters{};        ///< null: there are none
  std::uint32_t adapters_max = 0;    ///< that there is room for; 0: nothing is said of them
  std::uint64_t adapters_bytes = 0;  ///< of that room
  std::uint64_t states_bytes = 0;    ///< what layers without attention keep of slots; 0: there are none
  double wall_seconds = 0;           ///< of the scrape, since 1970

  /// Share of the KV cache in use, 0 to 1.
  [[nodiscard]] double kv_usage() const noexcept {
    if (kv_positions_max == 0) return 0.0;
    // Jobs that share positions count them each.
    return std::min(1.0, static_cast<double>(kv_positions) / static_cast<double>(kv_positions_max));
  }
};

/// Names beyond those of every scrape. Both are off by default because Prometheus's own lint (promtool
/// check metrics) refuses units other than the base unit and colons in names.
struct metrics_extras {
  bool milliseconds = false;  ///< adds worker_inference_duration_ms
  bool vllm = false;          ///< adds the names that gateways for vLLM read
};

/// The scrape.
[[nodiscard]] std::string render_metrics(const server_metrics& metrics, const metrics_snapshot& now,
                                         metrics_extras extras = {});

}  // namespace orcd::net
