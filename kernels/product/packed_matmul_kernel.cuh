// The throughput product: many columns on the tensor cores of Hopper (wgmma). A weight is unpacked once a
// block and used for N columns.
//
//   weights      VRAM --bulk copies--> ring in shared memory --> warps unpack --> registers, operand A
//   activations  VRAM --> ring in shared memory, as operand B; through stagers' registers, or copied
//   sums         registers; chunks of 256 of k folded left to right --> scale, bias --> memory
//
// A block has two kinds of warpgroups. Multipliers unpack weights and keep the tensor cores busy; stagers
// bring activations into their ring and start the copies of weights. Same bits as the few-column products:
// same operands, same order of k, same folds of 256.
#pragma once

#include "kernels/device/launch.cuh"
#include "kernels/product/packed_matmul_split.cuh"
#include "kernels/product/packed_matmul_stage.cuh"
#include "kernels/product/wgmma.cuh"

namespace orcd::kernels {

/// What a warp of a multiplying warpgroup does.
template <packed_format F, std::uint32_t N, k_sharing K>
class multiplier {
  using plan = block_plan<F, N, K>;

 public:
  __device__ multiplier(const matmul_work& work, const block_memory<F, N, K>& memory)
      : work_(work),
        memory_(memory),
        items_(work),
        row_block_(threadIdx.x / warpgroup_threads % work.row_blocks),
        part_(threadIdx.x / warpgroup_threads / work.row_blocks),
        parts_(parts_of<F, N, K>(work)),
        slot_(row_block_ * group_row_tiles + threadIdx.x / 32 % 4),
        weights_(memory, ring_of_warp()),
        buffer_(part_) {}

  __device__ void run() {
    if constexpr (plan::whole) {
      multiply_items();
    } else if (part_ < parts_) {
      if constexpr (plan::split) {
        multiply_in_cluster();
      } else {
        multiply_in_turns();
      }
    }
  }

 private:
  [[nodiscard]] __device__ weight_ring_place ring_of_warp() const {
    if (!plan::together) return memory_.warp_ring(threadIdx.x / 32);
    weight_ring_place ring = memory_.shared_ring(parts_, slot_);
    ring.slots += part_ * plan::slot_bytes;
    return ring;
  }
  [[nodiscard]] __device__ std::uint32_t groups_of(std::uint32_t chunk) const {
    return min(groups_per_chunk, work_.groups - chunk * groups_per_chunk);
  }

  /// One item after the other, all of k; the first chunk's sums become the running ones.
  __device__ void multiply_items() {
    if (blockIdx.x >= items_.count) return;
    if constexpr (plan::ahead) weights_.fragments(0, groups_of(0) == 1, a_[0]);
    float total[N / 2];
    for (std::uint32_t item = blockIdx.x; item < items_.count; item += gridDim.x) {
      const bool last_item = item + gridDim.x >= items_.count;
      multiply_chunk(total, groups_of(0), work_.chunks == 1 ? (last_item ? 0 : groups_of(0)) : groups_of(1));
      for (std::uint32_t chunk = 1; chunk < work_.chunks; ++chunk) {
        float acc[N / 2];
        const std::uint32_t next = chunk + 1 < work_.chunks ? groups_of(chunk + 1)
                                   : last_item              ? 0
                                                            : groups_of(0);
        multiply_chunk(acc, groups_of(chunk), next);
#pragma unroll
        for (std::uint32_t i = 0; i < N / 2; ++i) total[i] += acc[i];
      }
      store(item, total);
    }
  }

  /// Multiplies every `parts_`th chunk; warpgroups that share rows hand the running sums on to each other.
  __device__ void multiply_in_turns() {
    std::uint32_t item = blockIdx.x;
    std::uint32_t chunk = part_;
    const auto skip_to_chunk = [&] {
      for (; chunk >= work_.chunks; chunk -= work_.chunks) item += gridDim.x;
    };
    skip_to_chunk();
    if (item >= items_.count) return;
    if constexpr (plan::ahead) weights_.fragments(0, groups_of(chunk) == 1, a_[0]);
    while (item < items_.count) {
      const std::uint32_t now = chunk;
      const std::uint32_t now_item = item;
      chunk += parts_;
      skip_to_chunk();
      float acc[N / 2];
      multiply_chunk(acc, groups_of(now), item < items_.count ? groups_of(chunk) : 0);
      fold(now_item, now, acc);
    }
  }

  /// Multiplies every `parts_`th of the block's chunks; their sums go to the blocks of the cluster that fold
  /// them.
  __device__ void multiply_in_cluster() {
    using share = chunk_share<K>;
    cluster_sums<F, N> sums(work_, memory_, slot_, part_);
    const std::uint32_t chunks = share::count(work_);
    const auto groups = [&](std::uint32_t nth) {
      return nth < chunks ? groups_of(share::chunk(work_, nth)) : 0;
    };
    if (plan::ahead && part_ < chunks) weights_.fragments(0, groups(part_) == 1, a_[0]);
    std::uint32_t round = 0;
    for (std::uint32_t chunk = part_; chunk < chunks; chunk += parts_, ++round) {
      float acc[N / 2];
      multiply_chunk(acc, groups(chunk), groups(chunk + parts_));
      sums.send(round, acc);
      if (round > 0) sums.add(round - 1);
    }
    // The last round may have no chunk for this warpgroup.
    if (round < work_.split.rounds && round > 0) sums.add(round - 1);
    finish_unit(work_, items_, sums);
  }

  /// acc = the products of a chunk's `groups` (1 to 4) groups. While the tensor cores multiply a group, the
  /// warp unpacks the next one, which may be the next chunk's: that has `next` groups, or 0 if there is none.
  __device__ void multiply_chunk(float (&acc)[N / 2], std::uint32_t groups, std::uint32_t next) {
    if constexpr (!plan::ahead) weights_.fragments(0, groups == 1, a_[0]);
    if (is_k_format(F) || groups == groups_per_chunk) {
#pragma unroll
      for (std::uint32_t u = 0; u < groups_per_chunk; ++u) {
        start_product(acc, a_[plan::ahead ? u % 2 : 0], u);
        if constexpr (plan::ahead) {
          if (u > 0) {
            wgmma_wait<1>();
            product_done(u - 1);
          }
          if (u + 1 < groups_per_chunk) {
            weights_.fragments(u + 1, u + 2 == groups_per_chunk, a_[(u + 1) % 2]);
          } else if (next != 0) {
            weights_.fragments(0, next == 1, a_[0]);
          }
          if (u + 1 == groups_per_chunk) {
            wgmma_wait<0>();
            product_done(u);
          }
        } else {
          wgmma_wait<0>();
          product_done(u);
          if (u + 1 < groups_per_chunk) weights_.fragments(u + 1, u + 2 == groups_per_chunk, a_[0]);
        }
      }
    } else {
      multiply_part(acc, groups);
      if (plan::ahead && next != 0) weights_.fragments(0, next == 1, a_[0]);
    }
    pin(acc);
    buffer_ += parts_;
    if (buffer_ < plan::ring_chunks) return;
    buffer_ -= plan::ring_chunks;
    parity_ ^= 1U;
  }
  /// The same for the last chunk of an item when it is short. Its empty slots and stages are skipped, each
  /// slot before the stage that reports its use.
  __device__ void multiply_part(float (&acc)[N / 2], std::uint32_t groups) {
#pragma unroll 1
    for (std::uint32_t u = 0; u < groups_per_chunk; ++u) {
      if (u < groups) {
        start_product(acc, a_[0], u);
        wgmma_wait<0>();
      } else {
        if (u % plan::slot_groups == 0) weights_.skip();
        if (u % plan::stage_groups == 0) barrier_wait_unbounded(memory_.full(stage_of(u)), parity_);
      }
      product_done(u);
      if (u + 1 < groups) weights_.fragments(u + 1, u + 2 == groups, a_[0]);
    }
  }

  [[nodiscard]] __device__ std::uint32_t stage_of(std::uint32_t u) const {
    return buffer_ * plan::chunk_stages + u / plan::stage_groups;
  }
  /// Starts to multiply group u, whose operand A is `a`.
  __device__ void start_product(float (&acc)[N / 2], std::uint32_t (&a)[4][4], std::uint32_t u) {
    if (u % plan::stage_groups == 0) {
      barrier_wait_unbounded(memory_.full(stage_of(u)), parity_);
      fence_shared_for_async();
    }
    const std::uint64_t b =
        operand_b(memory_.address() + buffer_ * (plan::chunk_stages * plan::stage_bytes) + u * (N * 128));
    pin(acc);
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) pin(a[s]);
    wgmma_fence();
#pragma unroll
    for (std::uint32_t s = 0; s < 4; ++s) wgmma<N>(acc, a[s], b + 2 * s, (u | s) != 0);
    wgmma_commit();
  }
  /// Releases group u's stage once all of it has been multiplied.
  __device__ void product_done(std::uint32_t u) {
    if ((u + 1) % plan::stage_groups == 0 && threadIdx.x % 32 == 0)
      barrier_arrive(memory_.empty(stage_of(u)));
  }

  /// Adds a chunk's sums to those of the chunks before it; the warpgroup that has the last chunk stores the
  /// result.
  __device__ void fold(std::uint32_t item, std::uint32_t chunk, float (&acc)[N / 2]) {
    const bool last = chunk + 1 == work_.chunks;
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
    if (last) store(item, acc);
  }

  /// Waits until the chunks before this one are folded: warpgroups that share rows fold in the order of the
  /// chunks.
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

  __device__ void store(std::uint32_t item, const float (&sums)[N / 2]) {
    std::uint32_t row_group = 0;
    std::uint32_t column_tile = 0;
    items_.place(work_, item, row_group, column_tile);
    const column_range range = columns_of<N>(work_.args, column_tile);
    const row_tile place = row_tile_of(work_, row_group, slot_);
    auto* exchange = reinterpret_cast<float4*>(memory_.base + plan::exchange_at);
    if (is_paired(work_.args.matmul)) {
      store_paired<N, plan::order>(work_.args, range, place, sums, exchange);
    } else {
      store_sums<N>(work_.args, range, place, sums, exchange);
    }
  }

  const matmul_work& work_;
  const block_memory<F, N, K>& memory_;
  const item_list<N, K> items_;
  const std::uint32_t row_block_;  ///< which 64 rows
  const std::uint32_t part_;       ///< which chunks: part_, part_ + parts_, ...
  const std::uint32_t parts_;
  const std::uint32_t slot_;
  weight_ring<F, N, K> weights_;
  std::uint32_t a_[plan::ahead ? 2 : 1][4][4];
  std::uint32_t buffer_;  ///< where the next chunk lies in the ring of activations
  std::uint32_t parity_ = 0;
  std::uint32_t turns_ = 0;
};

template <packed_format F, std::uint32_t N, k_sharing K>
__global__ void __launch_bounds__(block_plan<F, N, K>::threads, 1)
    packed_matmul_kernel(const __grid_constant__ matmul_work work) {
  using plan = block_plan<F, N, K>;
  extern __shared__ std::byte shared_bytes[];
  const block_memory<F, N, K> memory(shared_bytes);
  memory.init_barriers(work);
  if constexpr (plan::split) {
    cluster_arrives();
    cluster_begins();
  } else {
    __syncthreads();
  }
  if (threadIdx.x >= plan::multipliers * warpgroup_threads) {
    if constexpr (plan::whole) shrink_registers<plan::stager_registers>();
    // The list of tiles of an expert launch is the result of an earlier kernel; a dense launch's is known,
    // and so are all weights.
    if (work.args.tiles != nullptr) wait_for_previous_kernel();
    stager<F, N, K>(work, memory).run();
  } else {
    if constexpr (plan::whole) grow_registers<plan::multiplier_registers>();
    wait_for_previous_kernel();
    multiplier<F, N, K>(work, memory).run();
  }
}

template <packed_format F, std::uint32_t N, k_sharing K>
int launch_instance(const matmul_work& work, std::uint32_t blocks, cudaStream_t stream) {
  using plan = block_plan<F, N, K>;
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      packed_matmul_kernel<F, N, K>, cudaFuncAttributeMaxDynamicSharedMemorySize, plan::shared_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  return launch_dependent_clusters(packed_matmul_kernel<F, N, K>, work.split.blocks, dim3(blocks),
                                   dim3(plan::threads), plan::shared_bytes, stream, work);
}

template <packed_format F>
int packed_tiles<F>::launch(const matmul_work& work, std::uint32_t columns, std::uint32_t blocks,
                            cudaStream_t stream) {
  using enum k_sharing;
  const bool split = work.split.blocks > 1;
  const bool is_packed = work.args.matmul.x_order == half_order::packed;
  switch (columns) {
    case 16:
      return split ? launch_instance<F, 16, cluster>(work, blocks, stream)
                   : launch_instance<F, 16, warpgroups>(work, blocks, stream);
    case 32:
      return split       ? launch_instance<F, 32, cluster>(work, blocks, stream)
             : is_packed ? launch_instance<F, 32, copied>(work, blocks, stream)
                         : launch_instance<F, 32, warpgroups>(work, blocks, stream);
    case 64:
      return is_packed ? launch_instance<F, 64, copied>(work, blocks, stream)
                       : launch_instance<F, 64, warpgroups>(work, blocks, stream);
    case 128:
      return is_packed ? launch_instance<F, 128, copied>(work, blocks, stream)
                       : launch_instance<F, 128, none>(work, blocks, stream);
    default: return cudaErrorInvalidValue;
  }
}

}  // namespace orcd::kernels
