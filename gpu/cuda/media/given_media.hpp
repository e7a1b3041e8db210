// What the forward pass is told of media: where their rows lie, and device memory that says of a pass's
// columns which rows stand there, what they see of each other and what they are turned by. Null where a model
// has no projector, or has no use of it. The calls enqueue.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "gpu/cuda/cuda_error.hpp"
#include "kernels/device/step_token.hpp"
#include "kernels/tower/given_rows.hpp"

namespace orcd::gpu {

struct given_media {
  kernels::row_store store;
  kernels::given_row* rows = nullptr;   ///< [columns], those of the pass first
  kernels::seen_block* seen = nullptr;  ///< [columns]: attention_args_paged::blocks
  kernels::step_turn* turns = nullptr;  ///< [columns]: rope_store_args::turns
  std::uint8_t* axes = nullptr;         ///< [tables][rope_pairs_max]: rope_store_args::axes

  /// The pass's rows in the place of its tokens' embeddings, times `scale`.
  void give(std::uint32_t count, float* residual, float scale, cudaStream_t stream) const {
    put(count, residual, 0, scale, false, stream);
  }
  /// What the tower has made of the rows for the text model's layer `layer`.
  void add_part(std::uint32_t count, float* residual, std::uint32_t layer, cudaStream_t stream) const {
    put(count, residual, layer + 1, 1.0F, true, stream);
  }

 private:
  void put(std::uint32_t count, float* residual, std::uint32_t part, float scale, bool adds,
           cudaStream_t stream) const {
    kernels::give_rows_args args;
    args.from = store;
    args.given = rows;
    args.count = count;
    args.part = part;
    args.scale = scale;
    args.adds = adds;
    args.x = residual;
    ORCD_CUDA(kernels::launch_give_rows(args, stream));
  }
};

}  // namespace orcd::gpu
