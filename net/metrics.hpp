// What /metrics counts. Plain numbers: everything here is read and written on the io thread only, and a
// scrape touches neither the GPU thread nor CUDA. Rendering is Prometheus text format 0.0.4.
// Source: M0-W-1350, WORK-3081, features.md (d).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/schedule/job.hpp"
#include "net/health.hpp"

namespace orcd::net {

/// Cumulative histogram over fixed upper bounds.
class histogram {
 public:
  explicit histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}
  void observe(double value) noexcept;
  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] double sum() const noexcept { return sum_; }
  [[nodiscard]] std::span<const double> bounds() const noexcept { return bounds_; }
  /// Observations per bucket, not cumulative; the last is above every bound.
  [[nodiscard]] std::span<const std::uint64_t> counts() const noexcept { return counts_; }

 private:
  std::span<const double> bounds_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
  double sum_ = 0;
};

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
  histogram duration_seconds;
  histogram first_token_seconds;
  histogram inter_token_seconds;
  histogram queue_seconds;
  histogram prefill_seconds;
  histogram decode_seconds;
  histogram cancel_to_idle_seconds;
  histogram deadline_remaining_seconds;

  /// Adds a finished job's figures.
  void count_job(outcome how, const engine::job_stats& stats, double duration_ms);
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
  std::uint64_t vram_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint64_t post_ready_allocations = 0;
  bool resident = false;
  std::string_view state;  ///< starting, ready, busy, draining, failed
  double uptime_seconds = 0;
  double step_age_seconds = 0;
  std::uint64_t steps = 0;
  std::uint32_t waiting = 0;
  std::uint32_t running = 0;
  std::size_t connections = 0;

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
  bool milliseconds = false;  ///< the seed's worker_inference_duration_ms
  bool vllm = false;          ///< the names that a gateway made for vLLM reads
};

/// The scrape.
[[nodiscard]] std::string render_metrics(const server_metrics& metrics, const metrics_snapshot& now,
                                         metrics_extras extras = {});

}  // namespace orcd::net
