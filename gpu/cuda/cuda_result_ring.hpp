// Where steps leave their results: pinned host memory that the sampler's kernel writes and the host polls;
// without pinned memory, device memory that a second stream copies out while the next step runs. GPU thread
// only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "gpu/cuda/cuda_resources.hpp"
#include "kernels/sample/sample_args.hpp"

namespace orcd::gpu {

class cuda_result_ring {
 public:
  cuda_result_ring() = default;
  /// `device` holds `depth * rows` results; used without pinned memory only.
  cuda_result_ring(std::uint32_t rows, std::uint32_t depth, bool pinned, kernels::sample_result* device);

  /// Where kernels write; entry `index` begins at index * rows.
  [[nodiscard]] kernels::sample_result* target() const noexcept { return target_; }
  /// Call once all of a step is enqueued in `stream`. The `results` of its entry will carry `ticket`.
  void launched(std::uint32_t index, std::uint32_t results, std::uint32_t ticket, cudaStream_t stream);
  /// Whether the step of the entry has ended. Throws cuda_failure.
  [[nodiscard]] bool ready(std::uint32_t index) const;
  /// After ready(); valid until the entry's next launched(). Throws cuda_failure.
  [[nodiscard]] std::span<const kernels::sample_result> results(std::uint32_t index);

 private:
  struct entry {
    std::uint32_t results = 0;
    std::uint32_t ticket = 0;
    event end;
  };
  [[nodiscard]] bool by_event(const entry& e) const noexcept { return !pinned_ || e.results == 0; }

  std::uint32_t rows_ = 0;  ///< of an entry
  bool pinned_ = true;
  pinned_buffer host_;
  kernels::sample_result* target_ = nullptr;
  std::vector<kernels::sample_result> copies_;  ///< without pinned memory
  owned_stream copy_stream_;
  std::vector<entry> entries_;
};

}  // namespace orcd::gpu
