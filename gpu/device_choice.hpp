// Which GPU a worker takes, and how long it waits for one to appear. Decisions only, no CUDA call: the
// machine, the clock and the sleep are given by the caller. Source: M0-W-1100, M0-W-1400; a worker that
// finds no GPU for 30 s gives up, it never falls back.
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

/// What was asked for: an index, or when `uuid` is not empty a UUID or a prefix of one.
struct gpu_choice {
  std::uint32_t index = 0;
  std::string uuid;
};

/// Oldest device the kernels run on.
inline constexpr int capability_major_min = 9;

/// One line per GPU for messages: index, name, UUID.
[[nodiscard]] std::string describe(std::span<const gpu_info> gpus);

/// The GPU that was asked for. Errors (worker_start_failed) say what was asked and list what is there:
/// an index past the last, a UUID nobody has, a prefix that several have, a device that is too old.
[[nodiscard]] engine::result<gpu_info> choose_gpu(std::span<const gpu_info> gpus, const gpu_choice& choice);

struct wait_policy {
  std::chrono::milliseconds total{30'000};
  std::chrono::milliseconds first_pause{250};
  std::chrono::milliseconds longest_pause{4'000};
  std::chrono::milliseconds notice_interval{4'000};  ///< between two calls of wait_clock::notice, at least
};

/// A wait that goes on: for whom it is that watches the start.
struct wait_notice {
  std::chrono::milliseconds waited{0};
  std::chrono::milliseconds limit{0};
  std::uint32_t tries = 0;
  std::string found;  ///< what the last try found instead of a GPU
};

/// How waiting sees the world.
struct wait_clock {
  std::function<std::chrono::steady_clock::time_point()> now;
  /// Returns false when the process is told to end; then waiting ends too.
  std::function<bool(std::chrono::milliseconds)> sleep;
  /// Told after the first try without a GPU and then every few seconds while the wait goes on; may be unset.
  std::function<void(const wait_notice&)> notice{};
};

/// Asks `find` until it finds at least one GPU, pausing twice as long each time, for `policy.total` at
/// most. The error (worker_start_failed) says for how long it tried and what it found at the end.
/// `last_try` is true for the last call.
[[nodiscard]] engine::result<std::vector<gpu_info>> wait_for_gpus(
    const std::function<engine::result<std::vector<gpu_info>>(bool last_try)>& find,
    const wait_policy& policy, const wait_clock& clock);

}  // namespace orcd::gpu
