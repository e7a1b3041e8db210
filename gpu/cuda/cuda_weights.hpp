// A model's weights in VRAM: where each tensor goes is planned first; then the file is read by several
// threads into a staging ring, copied, and moved into the packed layout on the GPU.
// GPU thread only. Source: M0-W-1220..1222, M0-W-1621.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/weight_layout.hpp"

namespace orcd::gpu {

/// Bytes the arena needs; errors (model_load_failed) when a tensor's type or shape has no kernel.
[[nodiscard]] engine::result<std::uint64_t> plan_cuda_weights(const engine::model& m);

/// Device bytes that the upload of this model needs beside the arena, until it returns.
[[nodiscard]] std::uint64_t upload_staging_bytes(const engine::model& m);

struct upload_options {
  bool pinned = true;  ///< false: pageable copies, no pinned staging (--no-pinned)
  unsigned reader_threads = 8;
};

/// Fills `arena` (of at least plan_cuda_weights bytes) and returns where everything is. `progress` gets
/// 0..100 from the calling thread. Staging memory is freed before it returns. Throws cuda_failure.
[[nodiscard]] cuda_weights upload_cuda_weights(const engine::model& m, const vram_arena& arena,
                                               const upload_options& options,
                                               const std::function<void(unsigned percent)>& progress);

/// Fills the pieces' places in `arena`, as upload_cuda_weights() does.
void upload_pieces(std::span<const weight_piece> pieces, const vram_arena& arena,
                   const upload_options& options, const std::function<void(unsigned percent)>& progress);

/// Where everything is in an arena that another process has filled in the same way.
[[nodiscard]] cuda_weights place_cuda_weights(const engine::model& m, const vram_arena& arena);

/// weight_layout::hash() of the model.
[[nodiscard]] std::string weights_layout_hash(const engine::model& m);

/// The content hash of the first `bytes` of an arena (gpu/memory/arena_hash.hpp), computed on the device.
/// Waits for it. Throws cuda_failure.
[[nodiscard]] std::string device_content_hash(const vram_arena& arena, std::uint64_t bytes);

}  // namespace orcd::gpu
