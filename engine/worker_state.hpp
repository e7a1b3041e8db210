// What the worker is doing, for /health, /ready, /metrics and sd_notify: set by app/ and the GPU
// thread, read by sessions. All members are atomics; readers never wait. Source: WORK-3015, design 6.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/model/kv_type.hpp"
#include "engine/model/pooling.hpp"

namespace orcd::engine {

enum class lifecycle { starting, ready, busy, draining, failed };
enum class health_status { healthy, degraded, unhealthy };

[[nodiscard]] std::string_view to_string(lifecycle state) noexcept;
[[nodiscard]] std::string_view to_string(health_status status) noexcept;

/// Positions of one page of the KV cache: attention folds chunks of this many (design 5), so that no
/// chunk spans two pages.
inline constexpr std::uint32_t kv_block_tokens = 256;

/// Facts fixed before the server answers anything but 503.
struct worker_identity {
  std::string worker_id;
  std::string version;
  std::string model_name;  ///< file stem, lower case: "qwen2.5-0.5b-instruct-q4_k_m"
  std::string model_path;
  std::string quant_kind;
  std::string digest;              ///< "sha256:..." of the model file, or empty until known
  std::string system_fingerprint;  ///< "fp_...": what decides the answers, known from the start
  std::string backend;             ///< "host", "cuda"
  std::string tokenizer_kind;
  std::string architecture;
  std::int32_t gpu_device = -1;  ///< the real index once loaded; -1 on the host backend
  std::string gpu_name;          ///< "NVIDIA H200"; empty on the host backend and until loaded
  std::string gpu_uuid;
  std::uint32_t slots = 1;
  std::uint32_t context_tokens = 0;
  std::uint32_t kv_pages = 0;  ///< of the KV cache; 0 = whole ones for every slot
  kv_types kv{};
  std::uint32_t active_experts = 0;  ///< experts_used of a MoE model, else 0
  std::uint32_t embedding_length = 0;
  std::optional<pooling_kind> pooling{};  ///< set: the model embeds or ranks and generates nothing
  std::uint32_t relevant_class = 0;       ///< of a ranking model's two outputs

  /// Pages of the KV cache.
  [[nodiscard]] std::uint64_t kv_blocks() const noexcept {
    if (kv_pages > 0) return kv_pages;
    return std::uint64_t{slots} * ((context_tokens + kv_block_tokens - 1) / kv_block_tokens);
  }
};

/// Memory outside the plan, read when somebody asks.
struct memory_counts {
  std::uint64_t pinned_bytes = 0;            ///< of host memory, held now
  std::uint64_t post_ready_allocations = 0;  ///< of device memory since the model was loaded; stays 0
};

/// What the prefix cache did and holds (engine/schedule/kv_cache.hpp), as published after a step; each number
/// for itself. All zero until the first job.
struct cache_state {
  std::atomic<std::uint64_t> queries{0};
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> query_tokens{0};
  std::atomic<std::uint64_t> hit_tokens{0};
  std::atomic<std::uint64_t> evictions{0};
  std::atomic<std::uint32_t> pages_cached{0};
  std::atomic<std::uint32_t> pages_used{0};  ///< by running jobs
  std::atomic<std::uint32_t> sessions{0};
};

/// Published state. `lifecycle` holds starting/ready/draining/failed; busy is derived: ready with a
/// job running.
class worker_state {
 public:
  void set(lifecycle state) noexcept { state_.store(state, std::memory_order_release); }
  [[nodiscard]] lifecycle get() const noexcept { return state_.load(std::memory_order_acquire); }

  std::atomic<health_status> health{health_status::healthy};
  std::atomic<bool> resident{false};
  std::atomic<std::uint64_t> vram_bytes{0};
  std::atomic<std::uint64_t> kv_bytes{0};  ///< of the KV cache, wherever it lies; 0 until planned
  std::atomic<std::uint32_t> load_percent{0};
  std::atomic<std::uint32_t> running{0};
  std::atomic<std::uint64_t> kv_positions{0};  ///< in use by running jobs, of slots * context_tokens
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::int64_t> last_step_ns{0};  ///< steady clock, 0 = no step yet
  std::atomic<bool> step_active{false};       ///< a step is in progress now
  cache_state cache;

 private:
  std::atomic<lifecycle> state_{lifecycle::starting};
};

}  // namespace orcd::engine
