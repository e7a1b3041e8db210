// What layers read of a token beside the residual stream (model_spec::layer_inputs): made of its embedding
// and of a table's row before the first layer, and used by each at its end. Nothing of it depends on the
// other columns. Its calls enqueue. GPU thread only.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/weight_layout.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/device/step_token.hpp"
#include "kernels/product/packed_matmul_args.hpp"

namespace orcd::gpu {

class cuda_layer_inputs {
 public:
  /// Enqueues a product of the rows in args.x with so many columns.
  using product = std::function<void(kernels::packed_matmul_args& args, std::uint32_t columns)>;

  /// `weights` and `work` outlive the object.
  cuda_layer_inputs(const engine::model_spec& spec, const cuda_weights& weights, const work_layout& layout,
                    const vram_arena& work, cudaStream_t stream, product multiply)
      : spec_(spec), weights_(weights), layout_(layout), work_(work), stream_(stream), multiply_(multiply) {}

  /// Makes the inputs of all layers. The stream holds the tokens' embeddings, not scaled yet.
  void make(const kernels::step_token* steps, std::uint32_t columns) const;
  /// Leaves what layer `layer` adds to the stream, before its norm, in work_layout::half_out.
  void multiply(std::uint32_t layer, std::uint32_t columns) const;

 private:
  [[nodiscard]] std::uint32_t all() const noexcept {
    return spec_.layer_inputs * static_cast<std::uint32_t>(spec_.layers.size());
  }
  [[nodiscard]] kernels::packed_matmul_args of_stream(std::uint32_t columns, bool fits) const;

  const engine::model_spec& spec_;
  const cuda_weights& weights_;
  const work_layout& layout_;
  const vram_arena& work_;
  cudaStream_t stream_;
  product multiply_;
};

}  // namespace orcd::gpu
