// Pooled sequences on the GPU: the states that a chunk leaves in the residual stream are copied to the host,
// normed there, and gathered as on the host backend (host_pooling.hpp). Each chunk is waited for before the
// next is enqueued. GPU thread only.
#pragma once

#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/host/host_pooling.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {

class cuda_pooling {
 public:
  /// `m` outlives the object.
  cuda_pooling(const engine::model& m, const cuda_extents& extents);

  /// Call after the chunk of `sequence` was enqueued: waits for it and takes its states. Returns the
  /// sequence's result if it ends with this chunk.
  [[nodiscard]] engine::pooled_values take(const cuda_forward& forward,
                                           const engine::sequence_step& sequence);

 private:
  void normalise(std::span<float> states);

  const engine::model& model_;
  host_pooling gathered_;
  std::vector<float> norm_;    ///< the weights of the norm after the last layer, or empty
  std::vector<float> bias_;    ///< of the same norm, or empty
  std::vector<float> states_;  ///< of a chunk
  kernels::host::thread_pool pool_{1};
};

}  // namespace orcd::gpu
