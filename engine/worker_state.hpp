// What the worker is doing, for /health, /ready, /metrics and sd_notify: set by app/ and the GPU thread, read
// by sessions. All members are atomics; readers never wait. Source: WORK-3015.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/base/error.hpp"
#include "engine/model/kv_type.hpp"
#include "engine/model/pooling.hpp"

namespace orcd::engine {

/// `standby` and `waking` are of engines of which another one serves: see net/failover.
enum class lifecycle { starting, standby, waking, ready, busy, draining, failed };
enum class health_status { healthy, degraded, unhealthy };
/// Why the worker is not well.
enum class health_cause {
  none,
  holder_away,            ///< an engine's connections end with it, should it end now
  job_out_of_memory,      ///< device memory ran out for one job; the worker goes on
  handler_out_of_memory,  ///< host memory ran out where nobody knows what was lost for it
  not_resident,
  lost,  ///< the accelerator failed for good
};

[[nodiscard]] std::string_view to_string(lifecycle state) noexcept;
/// Whether it will take jobs later, and does not yet.
[[nodiscard]] constexpr bool is_before_ready(lifecycle state) noexcept {
  return state == lifecycle::starting || state == lifecycle::standby || state == lifecycle::waking;
}
[[nodiscard]] std::string_view to_string(health_status status) noexcept;
[[nodiscard]] health_status status_of(health_cause cause) noexcept;
/// A sentence for operators: what happened, and what ends it. Empty for none.
[[nodiscard]] std::string_view describe(health_cause cause) noexcept;

/// Facts fixed before the server answers anything but 503.
struct worker_identity {
  std::string worker_id;
  std::string version;
  std::string model_name;                    ///< what answers, log and callback call the model
  std::vector<std::string> model_aliases{};  ///< its other ids in /v1/models
  std::string model_file{};                  ///< the file's name without .gguf: an id that is not listed
  bool any_model_name = false;               ///< whatever name a request has means this model
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
  std::uint32_t vocab = 0;                   ///< token ids are below
  std::uint32_t context_trained = 0;         ///< the context that the model was trained with
  std::uint64_t parameters = 0;              ///< elements of all tensors
  std::uint64_t tensor_bytes = 0;            ///< their bytes in the file
  std::optional<pooling_kind> pooling{};     ///< set: the model embeds or ranks and generates nothing
  std::uint32_t relevant_class = 0;          ///< of a ranking model's two outputs
  std::string projector{};                   ///< of media; empty: messages have none
  bool projector_hears = false;              ///< it takes sounds, and no pictures
  std::optional<std::uint32_t> engine_id{};  ///< set: one of several engines of which one serves

  /// Pages of the KV cache.
  [[nodiscard]] std::uint64_t kv_blocks() const noexcept {
    if (kv_pages > 0) return kv_pages;
    return std::uint64_t{slots} * ((context_tokens + kv_page_positions - 1) / kv_page_positions);
  }
};

/// Memory that is not part of the plan; read when /health or /metrics is asked for.
struct memory_counts {
  std::uint64_t pinned_bytes = 0;            ///< of host memory, held now
  std::uint64_t post_ready_allocations = 0;  ///< of device memory since the model was loaded; stays 0
};

/// What the prefix cache did and holds (engine/schedule/kv_cache.hpp), published after each step. Each number
/// is consistent by itself only. All zero until the first job.
struct cache_state {
  std::atomic<std::uint64_t> queries{0};
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> query_tokens{0};
  std::atomic<std::uint64_t> hit_tokens{0};
  std::atomic<std::uint64_t> evictions{0};
  std::atomic<std::uint64_t> preemptions{0};  ///< running jobs that gave their pages to older ones
  std::atomic<std::uint32_t> pages_cached{0};
  std::atomic<std::uint32_t> pages_used{0};  ///< by running jobs
  std::atomic<std::uint32_t> sessions{0};
  // Of layers with a sliding window that have pages of their own (engine/schedule/window_cache.hpp).
  std::atomic<std::uint32_t> window_pages{0};
  std::atomic<std::uint32_t> window_pages_used{0};  ///< by running jobs
  std::atomic<std::uint32_t> boundaries{0};
  std::atomic<std::uint64_t> boundaries_given_up{0};
};

/// Drafts of all jobs so far (engine/schedule/draft_source.hpp), published like the prefix cache's numbers.
struct draft_state {
  std::atomic<std::uint64_t> steps{0};     ///< a job's steps that had drafts
  std::atomic<std::uint64_t> tokens{0};    ///< drafts
  std::atomic<std::uint64_t> accepted{0};  ///< of them, those that became output
  /// The same by how many drafts came before.
  std::array<std::atomic<std::uint64_t>, drafts_max> accepted_at{};
};

/// Pictures and sounds on their way into the model (engine/schedule/media_store.hpp), published likewise.
struct media_state {
  std::atomic<std::uint64_t> encoded{0};  ///< media that went through the tower
  std::atomic<std::uint64_t> hits{0};     ///< media whose rows were kept
  std::atomic<std::uint32_t> stored{0};   ///< media whose rows are there
  std::atomic<double> encode_seconds{0};  ///< that the tower ran
};

/// Published state. `lifecycle` holds all of its values but busy, which is derived: ready with a job
/// running.
class worker_state {
 public:
  void set(lifecycle state) noexcept { state_.store(state, std::memory_order_release); }
  [[nodiscard]] lifecycle get() const noexcept { return state_.load(std::memory_order_acquire); }

  /// Degraded until recover(), unless something worse is known.
  void degrade() noexcept { replace(health_cause::none, health_cause::job_out_of_memory); }
  /// Degraded while the holder is away, unless something else is known.
  void set_holder(bool there) noexcept { holder_away_ = !there; }
  void recover() noexcept { replace(health_cause::job_out_of_memory, health_cause::none); }
  /// Unhealthy for good.
  void fail(health_cause why) noexcept { cause_ = why; }
  [[nodiscard]] health_cause cause() const noexcept {
    const auto known = cause_.load();
    return known == health_cause::none && holder_away_ ? health_cause::holder_away : known;
  }

  std::atomic<bool> resident{false};
  std::atomic<std::uint64_t> vram_bytes{0};
  std::atomic<std::uint64_t> kv_bytes{0};        ///< of the KV cache, wherever it lies; 0 until planned
  std::atomic<std::uint64_t> adapters_bytes{0};  ///< of the room for LoRA adapters, likewise
  std::atomic<std::uint64_t> states_bytes{0};    ///< what layers without attention keep of slots, likewise
  std::atomic<std::uint32_t> load_percent{0};
  std::atomic<std::uint64_t> load_bytes{0};  ///< of the model's tensors; with the times, 0 until known
  std::atomic<double> load_seconds{0};
  std::atomic<double> startup_seconds{0};  ///< from the start of the process until it was ready
  std::atomic<std::uint32_t> running{0};
  std::atomic<std::uint32_t> short_of_pages{0};  ///< jobs that wait for KV pages while slots are free
  std::atomic<std::uint64_t> kv_positions{0};    ///< in use by running jobs, of slots * context_tokens
  std::atomic<std::uint64_t> steps{0};
  std::atomic<std::int64_t> last_step_ns{0};  ///< steady clock, 0 = no step yet
  std::atomic<bool> step_active{false};       ///< a step is in progress now
  cache_state cache;
  media_state media;
  draft_state drafts;

 private:
  void replace(health_cause from, health_cause to) noexcept { cause_.compare_exchange_strong(from, to); }

  std::atomic<lifecycle> state_{lifecycle::starting};
  std::atomic<health_cause> cause_{health_cause::none};
  std::atomic<bool> holder_away_{false};
};

}  // namespace orcd::engine
