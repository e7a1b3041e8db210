// How the weights of bench_cuda_layer_floor come into shared memory: each warp has a ring of its own chunks,
// which it fills itself whenever it has read one, or which a further warp, the loader, fills for it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "bench/floor/layer_shape.cuh"
#include "kernels/bulk_copy.cuh"
#include "kernels/weight_stream.cuh"

namespace orcd::kernels {
namespace {

struct floor_args {
  const std::byte* weights;  ///< device, [layers][bytes]
  const float* norms;        ///< device, [width]
  const float* scales;       ///< device, of rows
  const float* router;       ///< device, [experts][width]
  std::uint64_t* words;      ///< device; flagged words of all phases, one after the other
  std::uint32_t first_flag;
  // Of a loader:
  std::uint32_t layer_cycles;  ///< in which a lane starts the copies of a layer, at equal times; or 0
  std::uint32_t burst_cycles;  ///< that it may make up for
};

template <class S>
struct alignas(128) block_memory {
  std::uint64_t full[warps][slots];
  std::uint32_t chunk_at[warps][chunks_max];  ///< where a warp's chunks of a layer lie, in expert 0
  std::uint32_t chunk_bytes[warps][chunks_max];
  std::uint32_t chunks[warps];
  std::uint32_t before_experts[warps];  ///< chunks of products that need no choice
  std::uint32_t before_down[warps];
  std::uint32_t read[warps];  ///< chunks that a warp has read
  std::uint32_t known;        ///< layers whose experts are chosen
  std::int32_t chosen[used];  ///< of the last of them
  float expert_weight[used];
  float scratch[2 * bringing_warps];
  float residual[own_rows_max];
  alignas(128) __half x[std::max({S::width, S::ffn, S::heads* S::head_width})];
  float sums[sums_max * tile_rows];
  alignas(128) std::byte ring[warps][slots][slot_bytes];
};

extern __shared__ __align__(128) std::byte floor_memory[];
template <class S>
__device__ __forceinline__ block_memory<S>& memory() {
  return *reinterpret_cast<block_memory<S>*>(floor_memory);
}

/// Which chunks of a layer a warp has.
template <class S>
__device__ void list_chunks(std::uint32_t warp) {
  using layer = layer_of<S>;
  auto& m = memory<S>();
  std::uint32_t count = 0;
  const auto add = [&]<class P>(P) {
    const std::uint32_t here = P::tiles_here() * P::chunks;
    for (std::uint32_t c = first_chunk(warp); c < P::chunks_here(); c += warps) {
      const std::uint32_t member = c / here;
      const std::uint32_t first = member * P::item_tiles + P::first_tile() % P::item_tiles;
      const std::uint32_t tile = first + (c - member * here) / P::chunks;
      const std::uint32_t chunk = c % P::chunks;
      m.chunk_at[warp][count] =
          static_cast<std::uint32_t>(P::at + std::uint64_t{tile} * P::tile_bytes + chunk * P::chunk_bytes);
      m.chunk_bytes[warp][count++] = P::bytes_of(chunk);
    }
  };
  add(typename layer::qkv{});
  add(typename layer::output{});
  m.before_experts[warp] = count;
  add(typename layer::gate_up{});
  m.before_down[warp] = count;
  add(typename layer::down{});
  m.chunks[warp] = count;
}

template <class S>
__device__ __forceinline__ void start_copy(std::uint32_t warp, std::uint32_t slot, const std::byte* from,
                                           std::uint32_t bytes) {
  auto& m = memory<S>();
  const std::uint32_t barrier = shared_address_of(&m.full[warp][slot]);
  barrier_expect(barrier, bytes);
  bulk_copy(shared_address_of(m.ring[warp][slot]), from, bytes, barrier);
}

/// A warp's chunks as it reads them; it copies them itself unless a loader does.
template <class S, bool Copies, bool Loader>
class chunk_ring {
 public:
  __device__ __forceinline__ explicit chunk_ring(const std::byte* weights) : layer_(weights) {
    for (std::uint32_t i = 0; i < slots; ++i) start(i);
  }
  __device__ __forceinline__ const std::byte* wait() const {
    auto& m = memory<S>();
    if (Copies) barrier_wait_unbounded(shared_address_of(&m.full[threadIdx.x / 32][slot_]), parity_);
    return m.ring[threadIdx.x / 32][slot_];
  }
  /// The whole warp has read it.
  __device__ __forceinline__ void done() {
    __syncwarp();
    start(slot_);
    if (Copies && Loader && threadIdx.x % 32 == 0)
      write_volatile(memory<S>().read[threadIdx.x / 32], ++read_);
    if (++slot_ < slots) return;
    slot_ = 0;
    parity_ ^= 1U;
  }

 private:
  __device__ __forceinline__ void start(std::uint32_t slot) {
    static_assert(Loader || !S::mixture);
    if (!Copies || Loader || threadIdx.x % 32 != 0 || left_ == 0) return;
    auto& m = memory<S>();
    const std::uint32_t warp = threadIdx.x / 32;
    start_copy<S>(warp, slot, layer_ + m.chunk_at[warp][next_], m.chunk_bytes[warp][next_]);
    if (++next_ < m.chunks[warp]) return;
    next_ = 0;
    layer_ += layer_of<S>::bytes;
    --left_;
  }

  const std::byte* layer_;
  std::uint32_t left_ = S::layers;
  std::uint32_t next_ = 0, slot_ = 0, parity_ = 0, read_ = 0;
};

/// The loader: each lane fills the ring of one warp.
template <class S>
__device__ __forceinline__ void load(const floor_args& a) {
  using layer = layer_of<S>;
  auto& m = memory<S>();
  constexpr std::uint32_t lanes = (1U << warps) - 1;
  const std::uint32_t warp = threadIdx.x % 32;
  if (warp >= warps) return;
  const std::uint32_t in_layer = m.chunks[warp];
  const std::uint32_t before_experts = m.before_experts[warp];
  const std::uint32_t before_down = m.before_down[warp];
  const std::uint32_t interval = a.layer_cycles / in_layer;
  const std::byte* from = a.weights;
  std::uint32_t i = 0, next = 0, sent = 0, slot = 0;
  auto due = static_cast<std::uint32_t>(clock());
  while (!__all_sync(lanes, sent == in_layer * S::layers)) {
    const auto now = static_cast<std::uint32_t>(clock());
    const auto late = static_cast<std::int32_t>(now - due);
    bool can = sent < in_layer * S::layers && late >= 0 && sent - read_volatile(m.read[warp]) < slots;
    const bool of_expert = S::mixture && next >= before_experts;
    if (of_expert) can = can && read_volatile(m.known) > i;
    if (can) {
      std::uint64_t at = m.chunk_at[warp][next];
      if (of_expert && next < before_down)
        at += read_volatile(m.chosen[layer::gate_up::item()]) * layer::gate_up::expert_bytes;
      else if (of_expert)
        at += read_volatile(m.chosen[layer::down::item()]) * layer::down::expert_bytes;
      start_copy<S>(warp, slot, from + at, m.chunk_bytes[warp][next]);
      due = (late > static_cast<std::int32_t>(a.burst_cycles) ? now - a.burst_cycles : due) + interval;
      slot = (slot + 1) % slots;
      ++sent;
      if (++next == in_layer) {
        next = 0;
        ++i;
        from += layer::bytes;
      }
    }
    __syncwarp(lanes);
  }
}

}  // namespace
}  // namespace orcd::kernels
