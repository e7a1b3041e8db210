// The throughput kernel: many columns on the tensor cores of Hopper. A weight is unpacked once per block
// and used for N columns; activations and weights come through rings in shared memory, filled ahead. Same
// bits as the latency kernel: same operands, same order of k, same folds of 256.
#pragma once

#include "kernels/launch.cuh"
#include "kernels/packed_matmul_stage.cuh"
#include "kernels/packed_matmul_store.cuh"
#include "kernels/packed_matmul_weights.cuh"
#include "kernels/wgmma.cuh"

namespace orcd::kernels {

/// Where the parts of a block's shared memory lie.
template <packed_format F, std::uint32_t N>
struct block_memory {
  using plan = block_plan<F, N>;
  std::byte* base;  ///< a multiple of 1024

  __device__ explicit block_memory(std::byte* raw)
      : base(raw + (1024 - shared_address_of(raw) % 1024) % 1024) {}
  [[nodiscard]] __device__ std::uint32_t address() const { return shared_address_of(base); }
  [[nodiscard]] __device__ std::uint32_t full(std::uint32_t stage) const {
    return address() + plan::barriers_at + stage * 8;
  }
  [[nodiscard]] __device__ std::uint32_t empty(std::uint32_t stage) const {
    return address() + plan::barriers_at + (plan::stages + stage) * 8;
  }
  [[nodiscard]] __device__ std::uint32_t weights_full(std::uint32_t warp) const {
    return address() + plan::barriers_at + (2 * plan::stages + warp * plan::slots) * 8;
  }
  [[nodiscard]] __device__ std::uint32_t turn(std::uint32_t row_block, std::uint32_t part) const {
    return address() + plan::barriers_at +
           (2 * plan::stages + plan::warps * plan::slots + row_block * 4 + part) * 8;
  }
  __device__ void init_barriers(std::uint32_t row_blocks) const {
    for (std::uint32_t i = 0; i < plan::stages; ++i) {
      barrier_init(full(i), plan::stager_threads / 32);
      barrier_init(empty(i), row_blocks * 4);
    }
    for (std::uint32_t i = 0; i < plan::warps * plan::slots; ++i) barrier_init(weights_full(0) + i * 8, 1);
    for (std::uint32_t i = 0; i < 4 * plan::multipliers; ++i) barrier_init(turn(0, 0) + i * 8, 4);
    barrier_init_done();
  }
};

/// Where in the ring of activations a warpgroup is.
template <packed_format F, std::uint32_t N>
struct ring_position {
  std::uint32_t count = 0;  ///< stages before this one
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;
  __device__ void seek(std::uint32_t target) {
    stage += target - count;
    count = target;
    while (stage >= block_plan<F, N>::stages) {
      stage -= block_plan<F, N>::stages;
      parity ^= 1U;
    }
  }
};

/// acc = the products of one chunk's `groups` (1 .. 4) groups. While the tensor cores multiply a group the
/// next one is unpacked. Calls slot_used() after each slot of weights.
template <packed_format F, std::uint32_t N, class SlotUsed>
__device__ void multiply_chunk(float (&acc)[N / 2], weight_ring<F, N>& weights,
                               const block_memory<F, N>& memory, ring_position<F, N>& ring,
                               std::uint32_t groups, const SlotUsed& slot_used) {
  using plan = block_plan<F, N>;
  constexpr std::uint32_t buffers = plan::buffers;
  std::uint32_t a[buffers][4][4];
  if (weights.fragments(0, groups == 1, a[0])) slot_used();
#pragma unroll
  for (std::uint32_t u = 0; u < groups_per_chunk; ++u) {
    if (u >= groups) break;
    const std::uint32_t in_stage = u % plan::stage_groups;
    if (in_stage == 0) {
      barrier_wait_unbounded(memory.full(ring.stage), ring.parity);
      fence_shared_for_async();
    }
    const std::uint64_t b = operand_b(memory.address() + ring.stage * plan::stage_bytes + in_stage * N * 128);
    pin(acc);
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) pin(a[u % buffers][s]);
    wgmma_fence();
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) wgmma<N>(acc, a[u % buffers][s], b + 2 * s, (u | s) != 0);
    wgmma_commit();
    if constexpr (buffers == 1) wgmma_wait<0>();
    if (u + 1 < groups && weights.fragments(u + 1, u + 2 == groups, a[(u + 1) % buffers])) slot_used();
    if constexpr (buffers == 2) wgmma_wait<0>();
    pin(acc);
    if (in_stage + 1 == plan::stage_groups || u + 1 == groups) {
      if (threadIdx.x % 32 == 0) barrier_arrive(memory.empty(ring.stage));
      ring.seek(ring.count + 1);
    }
  }
}

/// All that a warp of a multiplying warpgroup does.
template <packed_format F, std::uint32_t N>
class multiplier {
  using plan = block_plan<F, N>;

 public:
  __device__ multiplier(const matmul_work& work, const block_memory<F, N>& memory)
      : work_(work),
        memory_(memory),
        warpgroup_(threadIdx.x / warpgroup_threads),
        row_block_(warpgroup_ % work.row_blocks),
        part_(warpgroup_ / work.row_blocks),
        parts_(min(plan::multipliers / work.row_blocks, plan::parts_max)),
        slot_(row_block_ * group_row_tiles + threadIdx.x / 32 % 4) {}

  __device__ void run() {
    if (part_ >= parts_) return;
    // The list of an expert launch is the work of a kernel before; a dense list and all weights are not.
    if (work_.args.tiles != nullptr) wait_for_previous_kernel();
    const item_list<N> items(work_);
    const std::uint32_t warp = threadIdx.x / 32;
    weight_ring<F, N> weights{memory_.base + plan::weights_at + warp * plan::slots * plan::slot_bytes,
                              memory_.weights_full(warp)};
    start_weights(items);
    if (work_.args.tiles == nullptr) wait_for_previous_kernel();
    const std::uint32_t groups = work_.groups;
    const std::uint32_t chunks = work_.chunks;
    const std::uint32_t item_stages = (groups + plan::stage_groups - 1) / plan::stage_groups;
    constexpr std::uint32_t chunk_stages = groups_per_chunk / plan::stage_groups;
    ring_position<F, N> ring;
    struct {
      std::uint32_t item, chunk;
    } at{blockIdx.x, part_};
    std::uint32_t item_start = 0;  // stages of the items before
    while (true) {
      for (; at.chunk >= chunks; at.chunk -= chunks) {
        at.item += gridDim.x;
        item_start += item_stages;
      }
      if (at.item >= items.count) return;
      ring.seek(item_start + at.chunk * chunk_stages);
      float acc[N / 2];
      const std::uint32_t here = min(groups_per_chunk, groups - at.chunk * groups_per_chunk);
      multiply_chunk<F, N>(acc, weights, memory_, ring, here, [&] {
        if constexpr (plan::refill_within_chunk) request(items, 1);
      });
      if constexpr (!plan::refill_within_chunk) {
        request(items, (here + plan::slot_groups - 1) / plan::slot_groups);
      }
      fold(items, at.item, at.chunk, acc);
      at.chunk += parts_;
    }
  }

 private:
  [[nodiscard]] __device__ weight_request& next_request() const {
    return reinterpret_cast<weight_request*>(memory_.base + plan::requests_at)[threadIdx.x / 32];
  }
  /// Fills the warp's ring for the first time.
  __device__ void start_weights(const item_list<N>& items) {
    if (threadIdx.x % 32 == 0) {
      weight_request& next = next_request();
      next = {nullptr, blockIdx.x, part_, 0, 0};
      for (; next.chunk >= work_.chunks; next.chunk -= work_.chunks) next.item += gridDim.x;
      find_tile<F, N>(work_, items, slot_, next);
    }
    request(items, plan::slots);
  }
  /// Requests what follows into `count` slots that the warp has used up.
  __device__ void request(const item_list<N>& items, std::uint32_t count) {
    __syncwarp();
    if (threadIdx.x % 32 != 0) return;
    const std::uint32_t warp = threadIdx.x / 32;
    request_weights<F, N>(work_, items, slot_, parts_, count, next_request(),
                          memory_.address() + plan::weights_at + warp * plan::slots * plan::slot_bytes,
                          memory_.weights_full(warp));
  }

  /// Adds a chunk's sums to those of the chunks before it; the last chunk's warpgroup stores the result.
  __device__ void fold(const item_list<N>& items, std::uint32_t item, std::uint32_t chunk,
                       float (&acc)[N / 2]) {
    const bool last = chunk + 1 == work_.chunks;
    if constexpr (plan::wide) {
#pragma unroll
      for (std::uint32_t i = 0; i < N / 2; ++i) total_[i] = chunk == 0 ? acc[i] : total_[i] + acc[i];
      if (last) store(items, item, total_);
    } else {
      wait_for_turn();
      auto* totals = reinterpret_cast<float4*>(memory_.base + plan::totals_at) +
                     row_block_ * (N / 8) * warpgroup_threads + threadIdx.x % warpgroup_threads;
#pragma unroll
      for (std::uint32_t i = 0; i < N / 8; ++i) {
        if (chunk != 0) {
          const float4 before = totals[i * warpgroup_threads];
          acc[4 * i] = before.x + acc[4 * i];
          acc[4 * i + 1] = before.y + acc[4 * i + 1];
          acc[4 * i + 2] = before.z + acc[4 * i + 2];
          acc[4 * i + 3] = before.w + acc[4 * i + 3];
        }
        if (!last) {
          totals[i * warpgroup_threads] = float4{acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]};
        }
      }
      pass_turn();
      if (last) store(items, item, acc);
    }
  }

  /// Warpgroups that share rows fold in the order of the chunks.
  __device__ void wait_for_turn() {
    if (parts_ == 1) return;
    const bool very_first = part_ == 0 && turns_ == 0;
    if (!very_first)
      barrier_wait_unbounded(memory_.turn(row_block_, part_), (turns_ - (part_ == 0 ? 1 : 0)) & 1U);
    ++turns_;
  }
  __device__ void pass_turn() {
    if (parts_ == 1) return;
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(memory_.turn(row_block_, (part_ + 1) % parts_));
  }

  __device__ void store(const item_list<N>& items, std::uint32_t item, const float (&sums)[N / 2]) {
    std::uint32_t row_group = 0;
    std::uint32_t column_tile = 0;
    items.place(work_, item, row_group, column_tile);
    const column_range range = columns_of<N>(work_.args, column_tile);
    const row_tile place = row_tile_of(work_, row_group, slot_);
    if (is_paired(work_.args.matmul)) {
      auto* exchange = reinterpret_cast<float*>(memory_.base + plan::exchange_at);
      store_paired<N>(work_.args, range, place, sums, exchange + threadIdx.x / 64 * 512);
    } else {
      store_sums<N>(work_.args, range, place, sums);
    }
  }

  const matmul_work& work_;
  const block_memory<F, N>& memory_;
  std::uint32_t warpgroup_;
  std::uint32_t row_block_;  ///< which 64 rows
  std::uint32_t part_;       ///< which chunks: part_, part_ + parts_ ...
  std::uint32_t parts_;
  std::uint32_t slot_;
  std::uint32_t turns_ = 0;
  float total_[plan::wide ? N / 2 : 1];
};

template <packed_format F, std::uint32_t N>
__global__ void __launch_bounds__(block_plan<F, N>::threads, 1)
    packed_matmul_kernel(const __grid_constant__ matmul_work work) {
  using plan = block_plan<F, N>;
  extern __shared__ std::byte shared_bytes[];
  const block_memory<F, N> memory(shared_bytes);
  if (threadIdx.x == 0) memory.init_barriers(work.row_blocks);
  __syncthreads();
  if (threadIdx.x >= plan::multipliers * warpgroup_threads) {
    shrink_registers<plan::stager_registers>();
    stage_activations<F, N>(work, memory.address(), memory.full(0));
  } else {
    grow_registers<plan::multiplier_registers>();
    multiplier<F, N>(work, memory).run();
  }
}

template <packed_format F, std::uint32_t N>
int launch_instance(const matmul_work& work, std::uint32_t blocks, cudaStream_t stream) {
  using plan = block_plan<F, N>;
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      packed_matmul_kernel<F, N>, cudaFuncAttributeMaxDynamicSharedMemorySize, plan::shared_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  return launch_dependent(packed_matmul_kernel<F, N>, dim3(blocks), dim3(plan::threads), plan::shared_bytes,
                          stream, work);
}

template <packed_format F>
int packed_tiles<F>::launch(const matmul_work& work, std::uint32_t columns, std::uint32_t blocks,
                            cudaStream_t stream) {
  switch (columns) {
    case 16: return launch_instance<F, 16>(work, blocks, stream);
    case 32: return launch_instance<F, 32>(work, blocks, stream);
    case 64: return launch_instance<F, 64>(work, blocks, stream);
    case 128: return launch_instance<F, 128>(work, blocks, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace orcd::kernels
