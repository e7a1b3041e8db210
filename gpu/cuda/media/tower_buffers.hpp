// What a tower computes in on the GPU, as addresses in its arena (gpu/plan/media/media_layout.hpp), and what
// it knows of the view that it is at. Plain data.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/media/media_layout.hpp"
#include "kernels/tower/given_rows.hpp"
#include "kernels/tower/tower_attention.hpp"
#include "kernels/tower/tower_heads.hpp"

namespace orcd::gpu {

struct tower_buffers {
  tower_buffers(const media_layout& at, const vram_arena& arena)
      : content(arena.at<std::byte>(at.content)),
        places(arena.at<kernels::view_place>(at.places)),
        patch_at(arena.at<std::uint32_t>(at.patch_at)),
        ranges(arena.at<kernels::tower_range>(at.ranges)),
        turns(arena.at<float2>(at.turns)),
        stream(arena.at<float>(at.stream)),
        normed(arena.at<__half>(at.normed)),
        heads(arena.at<__half>(at.heads)),
        floats(arena.at<float>(at.floats)),
        halves(arena.at<__half>(at.halves)),
        clipped(arena.at<__half>(at.clipped)) {}

  std::byte* content;
  kernels::view_place* places;
  std::uint32_t* patch_at;
  kernels::tower_range* ranges;
  float2* turns;
  float* stream;
  __half* normed;
  __half* heads;
  float* floats;
  __half* halves;
  __half* clipped;
};

/// A view of a picture, or a chunk of a sound, whose positions are lines of one column.
struct tower_view {
  std::uint32_t lines = 0, columns = 0;
  std::uint32_t ranges = 0;  ///< of windows

  [[nodiscard]] std::uint32_t patches() const noexcept { return lines * columns; }
};

}  // namespace orcd::gpu
