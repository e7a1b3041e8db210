// The throughput product of prompts: tiles of 192 rows by up to 128 columns on the tensor cores of Hopper.
//
//   weights      VRAM --bulk copies--> ring in shared memory --> warps unpack --> registers, operand A
//   activations  images of operand B, a bulk copy for each 64 of k --> ring in shared memory
//   sums         registers; chunks of 256 of k folded left to right --> scale, bias --> memory
//
// The multiplying warps do nothing but unpack and multiply: no copy goes through their hands, so none has to
// be ordered before the tensor cores' reads, and while one warpgroup unpacks the other two multiply. A total
// begins at -0, to which a chunk's sum is added like to any other: the only number that changes nothing, not
// even a sign. Same bits as all other products of packed weights: same operands, order of k, and folds.
//
// Waits of the warps that copy are bounded; those of multiplying warps have no register for a bound and are
// for nothing but a copy that was started. So if a warp stops, those that copy trap.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/images/image_matmul_store.cuh"
#include "kernels/images/wgmma_96.cuh"
#include "kernels/product/wgmma.cuh"

namespace orcd::kernels {

/// Shared memory by 32-bit addresses, which take half the registers of pointers.
struct from_shared_address {
  static __device__ std::uint32_t address_of(const std::byte* p) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(p));
  }
  static __device__ const std::byte* pointer_of(std::uint32_t address) {
    return reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(address));
  }
  static __device__ uint4 load_16(const std::byte* p) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(address_of(p)));
    return v;
  }
  static __device__ uint2 load_8(const std::byte* p) {
    uint2 v;
    asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address_of(p)));
    return v;
  }
  static __device__ std::uint32_t load_4(const std::byte* p) {
    std::uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(address_of(p)));
    return v;
  }
  static __device__ std::uint32_t load_2(const std::byte* p) {
    std::uint16_t v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(address_of(p)));
    return v;
  }
};

/// A wait with the time limit of barrier_wait(), in place: a function that is called would make tensor cores
/// wait.
__device__ __forceinline__ void image_wait(std::uint32_t barrier, std::uint32_t parity) {
  std::uint64_t since = 0;
#pragma unroll 1
  for (std::uint32_t tries = 1; !barrier_try_wait(barrier, parity); ++tries) {
    if (tries % 4096 != 0) continue;
    const std::uint64_t now = clock_ns();
    if (since == 0) since = now;
    if (now - since > flagged_wait_ns_max) __trap();
  }
}

/// Addresses in a block's shared memory.
template <packed_format F>
struct image_memory {
  using plan = image_plan<F>;
  std::uint32_t base;

  [[nodiscard]] __device__ std::uint32_t full(std::uint32_t stage) const {
    return base + plan::barriers_at + stage * 8;
  }
  [[nodiscard]] __device__ std::uint32_t empty(std::uint32_t stage) const {
    return full(plan::stages + stage);
  }
  [[nodiscard]] __device__ std::uint32_t weights_full(std::uint32_t slot) const {
    return full(2 * plan::stages + slot);
  }
  [[nodiscard]] __device__ std::uint32_t weights_empty(std::uint32_t slot) const {
    return weights_full(plan::slots + slot);
  }
  [[nodiscard]] __device__ std::uint32_t stage(std::uint32_t i) const { return base + i * plan::stage_bytes; }
  [[nodiscard]] __device__ std::uint32_t slot(std::uint32_t i, std::uint32_t row_tile) const {
    return base + plan::weights_at + (i * plan::row_tiles + row_tile) * plan::slot_bytes;
  }
  __device__ void init_barriers() const {
    for (std::uint32_t i = threadIdx.x; i < 2 * (plan::stages + plan::slots); i += plan::threads) {
      const bool used = i < 2 * plan::stages ? i >= plan::stages : i >= 2 * plan::stages + plan::slots;
      barrier_init(full(i), used ? plan::row_tiles : 1);  // filled by one thread, used by each warp
    }
    barrier_init_done();
  }
};

/// A warp that starts the copies of weights, a lane for each row tile.
template <packed_format F>
__device__ __forceinline__ void copy_image_weights(const image_work& work, const image_memory<F>& memory,
                                                   const image_items& items) {
  using plan = image_plan<F>;
  const std::uint32_t lane = threadIdx.x % 32;
  std::uint32_t slot = 0;
  std::uint32_t parity = 1;
  for (std::uint32_t item = blockIdx.x; item < items.count; item += gridDim.x) {
    std::uint32_t row_group = 0;
    std::uint32_t column_tile = 0;
    items.place(work, item, row_group, column_tile);
    const image_rows rows(work, row_group * plan::row_tiles + min(lane, plan::row_tiles - 1));
    const packed_matrix& w = work.args.matmul.w[rows.matrix];
    const std::byte* from = w.data + static_cast<std::uint64_t>(rows.tile) * work.tile_bytes;
    if (work.args.tiles != nullptr) from += work.args.tiles[column_tile].expert * w.expert_stride;
    const std::uint32_t chunks = (work.groups + groups_per_chunk - 1) / groups_per_chunk;
    std::uint32_t left = work.tile_bytes;
#pragma unroll 1
    for (std::uint32_t i = 0; i < chunks * (plan::whole_chunks ? 1 : groups_per_chunk); ++i) {
      const std::uint32_t bytes = min(left, plan::slot_bytes);
      image_wait(memory.weights_empty(slot), parity);
      if (lane == 0) barrier_expect(memory.weights_full(slot), bytes * plan::row_tiles);
      __syncwarp();
      if (lane < plan::row_tiles && bytes > 0)
        bulk_copy(memory.slot(slot, lane), from, bytes, memory.weights_full(slot));
      from += bytes;
      left -= bytes;
      if (++slot == plan::slots) {
        slot = 0;
        parity ^= 1U;
      }
    }
  }
}

/// A thread that starts the copies of activations, one a stage.
template <packed_format F>
__device__ __forceinline__ void copy_image_columns(const image_work& work, const image_memory<F>& memory,
                                                   const image_items& items) {
  using plan = image_plan<F>;
  const packed_matmul_args& a = work.args.matmul;
  const std::uint32_t stages = (work.groups + groups_per_chunk - 1) / groups_per_chunk * groups_per_chunk;
  std::uint32_t stage = 0;
  std::uint32_t parity = 1;
  for (std::uint32_t item = blockIdx.x; item < items.count; item += gridDim.x) {
    std::uint32_t row_group = 0;
    std::uint32_t column_tile = 0;
    items.place(work, item, row_group, column_tile);
    const image_tile tile = image_tile_of(work.args, column_tile);
    const std::uint32_t bytes = image_columns(static_cast<std::uint32_t>(tile.count)) * group_cols * 2;
    const __half* from = a.x + static_cast<std::uint64_t>(tile.at) * group_cols;
#pragma unroll 1
    for (std::uint32_t group = 0; group < stages; ++group) {
      image_wait(memory.empty(stage), parity);
      if (group < work.groups) {
        barrier_expect(memory.full(stage), bytes);
        bulk_copy(memory.stage(stage), from, bytes, memory.full(stage));
      } else {
        barrier_arrive(memory.full(stage));
      }
      from += static_cast<std::uint64_t>(a.x_stride) * group_cols;
      if (++stage == plan::stages) {
        stage = 0;
        parity ^= 1U;
      }
    }
  }
}

/// What a warp of a multiplying warpgroup does with one item, of N columns or a few less. `chunk` counts
/// those that the block has had: two of them are in the rings of activations.
template <packed_format F, std::uint32_t N>
class image_multiplier {
  using plan = image_plan<F>;
  /// Whether a group is unpacked before the one before has been waited for, which takes registers for two.
  static constexpr bool ahead = N <= 96;

 public:
  __device__ __forceinline__ image_multiplier(const image_memory<F>& memory, std::uint32_t& chunk)
      : memory_(memory), chunk_(chunk) {}

  __device__ __forceinline__ void run(std::uint32_t groups, float (&total)[N / 2]) {
#pragma unroll
    for (std::uint32_t i = 0; i < N / 2; ++i) total[i] = -0.0F;
    const std::uint32_t rest = is_k_format(F) ? 0 : groups % groups_per_chunk;
    wait_for_weights(0);
    load(0);
    if constexpr (ahead) unpack(0, 0);
#pragma unroll 1
    for (std::uint32_t left = is_k_format(F) ? (groups + groups_per_chunk - 1) / groups_per_chunk
                                             : groups / groups_per_chunk;
         left != 0;) {
      --left;
      multiply_chunk(left != 0 || rest != 0);
      end_chunk(total);
    }
    if constexpr (!is_k_format(F)) {
      if (rest != 0) {
        multiply_rest(rest);
        end_chunk(total);
      }
    }
  }

 private:
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t warp() {
    return threadIdx.x / 32;
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t stage_of(std::uint32_t u) const {
    return chunk_ % 2 * groups_per_chunk + u;
  }
  /// Where group u of the current chunk, or the next one's first, is among the slots of weights.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t slot_of(std::uint32_t u) const {
    return plan::whole_chunks ? (chunk_ + u / groups_per_chunk) % 2 : u % groups_per_chunk;
  }
  __device__ __forceinline__ void wait_for_weights(std::uint32_t u) const {
    const std::uint32_t round = chunk_ + u / groups_per_chunk;
    barrier_wait_unbounded(memory_.weights_full(slot_of(u)), (plan::whole_chunks ? round / 2 : round) & 1U);
  }
  __device__ __forceinline__ void load(std::uint32_t u) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::byte* const at = from_shared_address::pointer_of(memory_.slot(slot_of(u), warp()));
    const std::uint32_t in_chunk = u % groups_per_chunk;
    if (plan::whole_chunks && in_chunk == 0)
      weights_.template load_shared_scales<from_shared_address>(at, lane);
    weights_.template load_group<from_shared_address>(at, plan::whole_chunks ? in_chunk : 0, lane);
  }
  __device__ __forceinline__ void unpack(std::uint32_t u, std::uint32_t which) {
    const auto scales = weights_.scales_of(0, u);
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) {
      weights_.fragment(0, s, scales, a_[which][s]);
      if constexpr (F == packed_format::f16) part_from_loads(a_[which][s]);
    }
  }
  /// Halves need no unpacking, so that what is loaded would be operand A itself, and nvcc 13.0 lets the next
  /// load write to the registers while tensor cores read them. A zero that it does not know parts the two.
  __device__ __forceinline__ void part_from_loads(std::uint32_t (&a)[4]) const {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i) asm volatile("xor.b32 %0, %0, %1;" : "+r"(a[i]) : "r"(zero_));
  }
  __device__ __forceinline__ void start(std::uint32_t (&a)[4][4], std::uint32_t u) {
    barrier_wait_unbounded(memory_.full(stage_of(u)), chunk_ / 2 & 1U);
    const std::uint64_t b = operand_b(memory_.stage(stage_of(u)));
    if (!ahead || u == 0) pin(acc_);
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) pin(a[s]);
    wgmma_fence();
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) wgmma<N>(acc_, a[s], b + 2 * s, (u | s) != 0);
    wgmma_commit();
  }
  /// All of group u has been multiplied.
  __device__ __forceinline__ void release(std::uint32_t u) const {
    if (threadIdx.x % 32 != 0) return;
    barrier_arrive(memory_.empty(stage_of(u)));
    if (!plan::whole_chunks) barrier_arrive(memory_.weights_empty(u));
  }
  /// Loads what follows group u of a chunk; `more`: there is another chunk.
  __device__ __forceinline__ void load_next(std::uint32_t u, bool more) {
    if (u + 1 < groups_per_chunk) {
      if (!plan::whole_chunks) wait_for_weights(u + 1);
      load(u + 1);
    } else if (more) {
      wait_for_weights(groups_per_chunk);
      load(groups_per_chunk);
    }
  }

  __device__ __forceinline__ void multiply_chunk(bool more) {
#pragma unroll
    for (std::uint32_t u = 0; u < groups_per_chunk; ++u) {
      if constexpr (ahead) {
        start(a_[u % 2], u);
        load_next(u, more);
        if (u > 0) {
          wgmma_wait<1>();
          release(u - 1);
        }
        if (u + 1 < groups_per_chunk || more) unpack((u + 1) % groups_per_chunk, (u + 1) % 2);
      } else {
        unpack(u, 0);
        start(a_[0], u);
        load_next(u, more);
        wgmma_wait<0>();
        release(u);
      }
    }
    if constexpr (ahead) {
      wgmma_wait<0>();
      release(groups_per_chunk - 1);
    }
  }
  /// An item's last chunk where it is short. Stages that are filled with nothing are passed on.
  /// Not a loop, which would make tensor cores wait.
  __device__ __forceinline__ void multiply_rest(std::uint32_t rest) {
#pragma unroll
    for (std::uint32_t u = 0; u < groups_per_chunk; ++u) {
      if (u < rest) {
        if (!ahead || u != 0) unpack(0, 0);
        start(a_[0], u);
        wgmma_wait<0>();
        if (u + 1 < rest) load_next(u, false);
      } else {
        barrier_wait_unbounded(memory_.full(stage_of(u)), chunk_ / 2 & 1U);
        if (!plan::whole_chunks) wait_for_weights(u);
      }
      release(u);
    }
  }
  __device__ __forceinline__ void end_chunk(float (&total)[N / 2]) {
    pin(acc_);
    if (plan::whole_chunks && threadIdx.x % 32 == 0) barrier_arrive(memory_.weights_empty(chunk_ % 2));
    ++chunk_;
#pragma unroll
    for (std::uint32_t i = 0; i < N / 2; ++i) total[i] = __fadd_rn(total[i], acc_[i]);
  }

  const image_memory<F>& memory_;
  std::uint32_t& chunk_;
  const std::uint32_t zero_ = gridDim.z - 1;
  tile_stage<F, 1> weights_;
  std::uint32_t a_[ahead ? 2 : 1][4][4];
  float acc_[N / 2];
};

/// One item, whose place is kept in shared memory meanwhile, because registers are all in use.
template <packed_format F, std::uint32_t N>
__device__ __forceinline__ void multiply_image_item(const image_work& work, const image_memory<F>& memory,
                                                    std::uint32_t& chunk, volatile std::uint32_t* place,
                                                    std::byte* shared) {
  using plan = image_plan<F>;
  float sums[N / 2];
  image_multiplier<F, N>(memory, chunk).run(work.groups, sums);
  const std::uint32_t kept = *place;
  __syncwarp();
  const image_tile tile = image_tile_of(work.args, kept & 0xFFFFU);
  const image_rows rows(work, (kept >> 16U) * plan::row_tiles + threadIdx.x / 32);
  if (is_paired(work.args.matmul)) {
    store_image_pairs<N>(work, tile, rows, sums, shared + plan::exchange_at + threadIdx.x / 32 * 1024);
  } else {
    store_image_sums<N>(work, tile, rows, sums);
  }
}

template <packed_format F>
__device__ __forceinline__ void multiply_image_items(const image_work& work, const image_memory<F>& memory,
                                                     const image_items& items, std::byte* shared) {
  using plan = image_plan<F>;
  auto* const place = reinterpret_cast<volatile std::uint32_t*>(shared + plan::items_at) + threadIdx.x / 32;
  std::uint32_t chunk = 0;
#pragma unroll 1
  for (std::uint32_t item = blockIdx.x; item < items.count; item += gridDim.x) {
    std::uint32_t row_group = 0;
    std::uint32_t column_tile = 0;
    items.place(work, item, row_group, column_tile);
    if (threadIdx.x % 32 == 0) *place = row_group << 16U | column_tile;
    __syncwarp();
    const std::int32_t count = image_tile_of(work.args, column_tile).count;
    if (count <= 64) {
      multiply_image_item<F, 64>(work, memory, chunk, place, shared);
    } else if (plan::columns == 96 || count <= 96) {
      multiply_image_item<F, 96>(work, memory, chunk, place, shared);
    } else {
      multiply_image_item<F, plan::columns == 96 ? 96 : 128>(work, memory, chunk, place, shared);
    }
  }
}

template <packed_format F>
__global__ void __launch_bounds__(image_plan<F>::threads, 1)
    image_matmul_kernel(const __grid_constant__ image_work work) {
  using plan = image_plan<F>;
  extern __shared__ __align__(1024) std::byte shared_bytes[];
  const image_memory<F> memory{shared_address_of(shared_bytes)};
  if (memory.base % 1024 != 0) __trap();
  memory.init_barriers();
  __syncthreads();
  if (threadIdx.x >= plan::multipliers * 128) {
    shrink_registers<plan::producer_registers>();
    const std::uint32_t warp = threadIdx.x / 32 % 4;
    // The list of tiles is the result of an earlier kernel; a dense launch's is known, and so are weights.
    if (warp == 1 || work.args.tiles != nullptr) wait_for_previous_kernel();
    const image_items items(work);
    if (warp == 0) copy_image_weights(work, memory, items);
    if (warp == 1) {
      allow_next_kernel();
      if (threadIdx.x % 32 == 0) copy_image_columns(work, memory, items);
    }
    __syncwarp();
  } else {
    grow_registers<plan::multiplier_registers>();
    wait_for_previous_kernel();
    multiply_image_items(work, memory, image_items(work), shared_bytes);
  }
}

template <packed_format F>
int image_products<F>::launch(const image_work& work, std::uint32_t blocks, cudaStream_t stream) {
  using plan = image_plan<F>;
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      image_matmul_kernel<F>, cudaFuncAttributeMaxDynamicSharedMemorySize, plan::shared_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  return launch_dependent(image_matmul_kernel<F>, dim3(blocks), dim3(plan::threads), plan::shared_bytes,
                          stream, work);
}

}  // namespace orcd::kernels
