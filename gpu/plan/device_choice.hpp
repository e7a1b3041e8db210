// Which GPU a worker takes, and how long it waits for one to appear. Decisions only, no CUDA call: the caller
// gives the machine, the clock and the sleep. A worker that finds no GPU in time gives up, it never falls
// back. Source: M0-W-1100, M0-W-1400, WORK-3130.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.hpp"

namespace orcd::gpu {

struct gpu_info {
  int index = 0;  ///< CUDA's, after CUDA_VISIBLE_DEVICES
  std::string name;
  std::string uuid;  ///< "GPU-123e4567-e89b-12d3-a456-426614174000", lower case
  int capability_major = 0;
  int capability_minor = 0;
  int sm_count = 0;
  std::uint64_t memory_bytes = 0;
};

/// What was requested: an index, or if `uuid` is not empty, a UUID or a prefix of one.
struct gpu_choice {
  std::uint32_t index = 0;
  std::string uuid;
};

/// The one compute capability that the kernels run on: code for sm_90a runs on no other, newer or older.
inline constexpr int capability_major = 9;
inline constexpr int capability_minor = 0;

/// One line per GPU for messages: index, name, UUID.
[[nodiscard]] std::string describe(std::span<const gpu_info> gpus);

/// The requested GPU. Errors (worker_start_failed) say what was requested and list what is there: an index
/// past the last one, a UUID that none has, a prefix that several have, a device of
/// another compute capability.
[[nodiscard]] engine::result<gpu_info> choose_gpu(std::span<const gpu_info> gpus, const gpu_choice& choice);

struct wait_policy {
  std::chrono::milliseconds total{0};  ///< 0: one try
  std::chrono::milliseconds first_pause{250};
  std::chrono::milliseconds longest_pause{4'000};
  std::chrono::milliseconds notice_interval{4'000};  ///< between two calls of wait_clock::notice, at least
};

/// Tells the observer of a start that the wait goes on.
struct wait_notice {
  std::chrono::milliseconds waited{0};
  std::chrono::milliseconds limit{0};
  std::uint32_t tries = 0;
  std::string found;  ///< what the last try found instead of a GPU
};

/// What waiting needs from outside.
struct wait_clock {
  std::function<std::chrono::steady_clock::time_point()> now;
  /// Returns false when the process is told to end; then the wait ends, too.
  std::function<bool(std::chrono::milliseconds)> sleep;
  /// Called after the first try without a GPU, then every few seconds while the wait goes on; may be unset.
  std::function<void(const wait_notice&)> notice{};
};

/// Calls `find` until it finds at least one GPU, with pauses that double each time, for at most
/// `policy.total`. The error (worker_start_failed) says how long it tried and what it found at the end.
/// `last_try` is true in the last call.
[[nodiscard]] engine::result<std::vector<gpu_info>> wait_for_gpus(
    const std::function<engine::result<std::vector<gpu_info>>(bool last_try)>& find,
    const wait_policy& policy, const wait_clock& clock);

}  // namespace orcd::gpu
