// The GPU of this process: found, checked, made current and left again. GPU thread only, and before
// every other CUDA owner; destroyed after them. Source: M0-W-1010, M0-W-1400, M0-W-1401.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/error.hpp"
#include "gpu/plan/device_choice.hpp"

namespace orcd::gpu {

/// Every GPU that CUDA shows this process. While the driver's device files are missing it does not ask
/// CUDA, which would remember the failure, unless `insist` says so.
[[nodiscard]] engine::result<std::vector<gpu_info>> list_gpus(bool insist = true);

/// Real time: steady_clock and a sleep that nothing interrupts.
[[nodiscard]] wait_clock real_wait_clock();

/// What happens to the primary context when the object ends. reset: it is destroyed (M0-W-1401), for a
/// process that ends then. keep: for tests, which share the context with what runs after them.
enum class device_end { reset, keep };

struct device_memory {
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
};

class cuda_device {
 public:
  /// Waits for a GPU, chooses one and makes its primary context current on the calling thread. Errors
  /// (worker_start_failed, or cuda_error when the context cannot be made) name what was found.
  [[nodiscard]] static engine::result<cuda_device> open(const gpu_choice& choice,
                                                        device_end end = device_end::reset,
                                                        const wait_policy& policy = {},
                                                        const wait_clock& clock = real_wait_clock());

  cuda_device(cuda_device&& other) noexcept;
  cuda_device& operator=(cuda_device&& other) noexcept;
  ~cuda_device();

  [[nodiscard]] const gpu_info& info() const noexcept { return info_; }
  [[nodiscard]] int index() const noexcept { return info_.index; }
  /// Throws cuda_failure.
  [[nodiscard]] device_memory memory() const;
  /// Bytes of the heap for malloc() in kernels; asked to be 0, the driver may keep a minimum.
  [[nodiscard]] std::uint64_t device_heap_bytes() const;

 private:
  cuda_device(gpu_info info, device_end end) : info_(std::move(info)), end_(end), open_(true) {}

  gpu_info info_;
  device_end end_ = device_end::keep;
  bool open_ = false;
};

}  // namespace orcd::gpu
