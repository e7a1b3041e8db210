#include <cuda_runtime.h>

#include "kernels/attention_dispatch.cuh"
#include "kernels/decode_attention.cuh"
#include "kernels/decode_program.hpp"
#include "kernels/expert_choice.cuh"
#include "kernels/launch.cuh"
#include "kernels/program_block.cuh"

namespace orcd::kernels {
namespace {

using engine::kv_type;

template <std::uint32_t W>
using attention_shared = decode_shared<W, program_warps>;
static_assert(sizeof(attention_shared<32>) <= attention_work_bytes(32) &&
              sizeof(attention_shared<64>) <= attention_work_bytes(64) &&
              sizeof(attention_shared<96>) <= attention_work_bytes(96) &&
              sizeof(attention_shared<128>) <= attention_work_bytes(128));

/// Row tiles of a block's outputs: gate and up make one.
__device__ __forceinline__ std::uint32_t output_tiles(const packed_matmul_args& a, const block_share& share) {
  return is_paired(a) ? share.tiles[0] : share.tiles[0] + share.tiles[1] + share.tiles[2];
}

/// Output i of the block.
__device__ __forceinline__ result_place output_at(const packed_matmul_args& a, const block_share& share,
                                                  std::uint32_t i) {
  std::uint32_t tile = i / tile_rows;
  result_place place{share.item, 0, 0, 0};
#pragma unroll
  for (std::uint32_t m = 0; m < 2; ++m) {
    if (!is_paired(a) && place.matrix == m && tile >= share.tiles[m]) {
      tile -= share.tiles[m];
      place.out_row += a.w[m].rows;
      ++place.matrix;
    }
  }
  place.row = (share.first_tile[place.matrix] + tile) * tile_rows + i % tile_rows;
  place.out_row += place.row;
  return place;
}

/// This worker's chunks of the phase, their sums kept. The format is chosen for a run of chunks.
__device__ __forceinline__ void multiply_chunks(const decode_program& program, walk& w, const __half* x,
                                                float* sums) {
  stream_state& stream = header().stream;
  const std::uint32_t worker = threadIdx.x / 32;
  const std::byte* const ring = ring_memory(program) + worker * ring_bytes(program);
  const std::uint32_t chunks = slot_of(w.phase).share.chunks;
#pragma unroll 1
  while (w.reader.next < chunks) {
    stream_chunk c = w.reader.wait(stream, worker);
    with_format(c.format, 0, [&](auto format) {
      constexpr packed_format f = decltype(format)::value;
#pragma unroll 1
      for (;;) {
        float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
        multiply_chunk_ahead<f>(ring + c.at, c.groups, x + c.x, acc);
        w.reader.done(stream, worker);
        keep_sums(sums + c.sums, 1, acc);
        if (w.reader.next >= chunks) break;
        c = w.reader.wait(stream, worker);
        if (c.format != f) break;
      }
      return 0;
    });
  }
  w.reader.leave(chunks);
}

constexpr std::uint32_t no_target = 0xFFFFFFFFU;
/// Where among its phase's outputs an output of the block goes; padding nowhere.
__device__ __forceinline__ std::uint32_t target_of(const packed_matmul_args& a, const result_place& place) {
  if (is_padding(a, place)) return no_target;
  if (is_paired(a)) return place.column * a.act_stride + place.row;
  return a.output == matmul_output::add ? place.row : place.column * a.out_stride + place.out_row;
}

/// A new state of one of the block's own rows of the residual stream, to all blocks and to what comes after
/// the kernel.
__device__ __forceinline__ void publish_residual(const phase_slot& slot, std::uint32_t row, std::uint32_t i,
                                                 float value, std::uint32_t flag) {
  header().residual[i] = value;
  store_flagged(slot.phase.out + row, __float_as_uint(value), flag);
  slot.phase.matmul.out[row] = value;
}

__device__ __forceinline__ void store_outputs(const phase_slot& slot, std::uint32_t outputs,
                                              const float* sums, std::uint32_t expert, std::uint32_t flag) {
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t chunks = slot.phase.chunks.d;
  copied_floats();
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < outputs; i += worker_threads) {
    std::uint32_t target = no_target;
    result_terms terms = header().terms[i % terms_ahead];
    if (i < terms_ahead) {
      target = header().targets[i];
    } else {
      const result_place place = output_at(a, slot.share, i);
      target = target_of(a, place);
      if (target != no_target) terms = terms_of(a, place, expert);
    }
    const bool padding = target == no_target;
    const float* mine = sums + i / tile_rows * chunks * tile_rows + i % tile_rows;
    const float first = fold(mine, chunks, tile_rows);
    if (is_paired(a)) {
      const float second = fold(mine + slot.share.tiles[0] * chunks * tile_rows, chunks, tile_rows);
      // Rows 2 n and 2 n + 1 are neighbours in one warp, whose first or whose all lanes have an output.
      const std::uint32_t lanes = i / 32 * 32 + 32 <= outputs ? 0xFFFFFFFFU : 0xFFFFU;
      const std::uint32_t half = padding ? 0U : __half_as_ushort(activated(a.output, terms, first, second));
      const std::uint32_t next = __shfl_xor_sync(lanes, half, 1);
      if (i % 2 == 0 && !padding) store_flagged(slot.phase.out + target / 2, half | next << 16U, flag);
    } else if (padding) {
      continue;
    } else if (a.output == matmul_output::add) {
      publish_residual(slot, target, i, __fadd_rn(header().residual[i], with_terms(terms, 0, first)), flag);
    } else if (slot.phase.out == nullptr) {
      a.out[target] = with_terms(terms, 0, first);
    } else {
      store_flagged(slot.phase.out + target, __float_as_uint(with_terms(terms, 0, first)), flag);
    }
  }
}

/// The experts of this step, by every block for itself.
__device__ __forceinline__ void choose_experts(const phase_slot& slot, const walk& w) {
  stream_state& stream = header().stream;
  if (threadIdx.x < 32) {
    choose(
        slot.phase.route,
        [&](std::uint32_t expert) { return __uint_as_float(read_flagged(slot.phase.in + expert, w.flag)); },
        stream.chosen, header().expert_weights);
    __syncwarp();
    if (threadIdx.x == 0) write_volatile(stream.known, w.phase);
  }
  sync_workers();
}

/// The norm of the residual stream as a product's input; store(i, value) may keep it in f32 too.
template <class Store>
__device__ __forceinline__ void take_norm(const decode_program& program, float eps, const walk& w,
                                          Store store) {
  auto* const x = reinterpret_cast<__half*>(work_memory());
  if (threadIdx.x < padded_cols(program.width) - program.width) x[program.width + threadIdx.x] = __half{};
  norm_of(program, slot_of(w.phase).phase.in, eps, w, [&](std::uint32_t i, float value) {
    x[i] = to_half(value);
    store(i, value);
  });
}

/// Asks L2 for the row scales of outputs past those that are fetched, of the output head: one matrix.
__device__ __forceinline__ void prefetch_terms(const packed_matmul_args& a, const block_share& share,
                                               std::uint32_t outputs) {
  constexpr std::uint32_t a_sector = l2_sector_bytes / sizeof(float);
  const std::uint32_t i = terms_ahead + a_sector * threadIdx.x;
  if (i < outputs && a.w[0].row_scale != nullptr)
    prefetch_sector(a.w[0].row_scale + share.first_tile[0] * tile_rows + i);
}

template <bool Stamps>
__device__ __forceinline__ void multiply(const decode_program& program, walk& w) {
  const phase_slot& slot = slot_of(w.phase);
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t cols = a.w[0].cols;
  const std::uint32_t padded = padded_cols(cols);
  const std::uint32_t outputs = output_tiles(a, slot.share) * tile_rows;
  if (outputs == 0 && !slot.phase.chooses) {
    if (slot.phase.norms) wait_for_row(header().norm_barrier, slot.phase.norm_round);
    stamp<Stamps>(program, w.phase, 1);
    stamp<Stamps>(program, w.phase, 2);
    return;
  }
  const bool ahead = threadIdx.x < min(outputs, terms_ahead);
  auto* const x = reinterpret_cast<__half*>(work_memory());
  auto* const sums = reinterpret_cast<float*>(x + padded);
  const result_place place = ahead ? output_at(a, slot.share, threadIdx.x) : result_place{};
  std::uint32_t expert = 0;
  if (slot.phase.chooses) choose_experts(slot, w);
  if (a.experts != nullptr) expert = static_cast<std::uint32_t>(header().stream.chosen[slot.share.item]);
  if (ahead) {
    fetch_terms(a, place, expert, header().terms[threadIdx.x]);
    header().targets[threadIdx.x] = target_of(a, place);
  }
  prefetch_terms(a, slot.share, outputs);
  const std::uint32_t row = a.x_divisor == 1 ? slot.share.item : slot.share.item / a.x_divisor;
  if (slot.phase.norms)
    take_norm(program, a.norm_eps, w, [](std::uint32_t, float) {});
  else if (!slot.phase.chooses && !slot.phase.keeps_input)
    stage_halfs(slot.phase.in + row * a.x_stride / 2, cols, padded, w.flag, x);
  sync_workers();
  stamp<Stamps>(program, w.phase, 1);
  multiply_chunks(program, w, x + 16 * (threadIdx.x % 4), sums);
  sync_workers();
  stamp<Stamps>(program, w.phase, 2);
  store_outputs(slot, outputs, sums, expert, w.flag + 1);
}

/// Attention's values from and to other blocks.
struct attention_flagged {
  static constexpr std::uint32_t warps = program_warps;

  const decode_phase& phase;
  std::uint32_t flag;
  const float2* turns;

  __device__ __forceinline__ void sync() const { sync_workers(); }
  __device__ __forceinline__ void read(std::uint32_t index, float (&v)[head_values_per_lane]) const {
    const std::uint32_t width = phase.attention.rope.width;
    gather_floats<32>(phase.in + index * width, width, flag, threadIdx.x % 32, v);
  }
  __device__ __forceinline__ void write(std::uint32_t d, __half first, __half second) const {
    store_flagged(phase.out + d / 2,
                  __half_as_ushort(first) | static_cast<std::uint32_t>(__half_as_ushort(second)) << 16U,
                  flag + 1);
  }
};

/// The rotation's sines are those of the layer before, unless it had another table.
__device__ __forceinline__ void turn(const rope_store_args& a) {
  if (header().turned == a.inv_freq) return;
  if (threadIdx.x < a.rope_dims / 2)
    header().turns[threadIdx.x] = turn_of(a, header().step.position, threadIdx.x);
  sync_workers();
  if (threadIdx.x == 0) header().turned = a.inv_freq;
  sync_workers();
}

template <std::uint32_t W>
__device__ __forceinline__ void attend(const decode_program& program, const walk& w) {
  const decode_phase& phase = slot_of(w.phase).phase;
  const decode_attention_args& args = phase.attention;
  const attention_args_paged& a = args.attend;
  auto& shared = *reinterpret_cast<attention_shared<W>*>(work_memory());
  attention_share share = slot_of(w.phase).share.attention;
  if (share.heads == 0) return;
  const auto tile = [&] { return decode_tile{0, share.kv_head, share.first_head, share.heads}; };
  prefetch_pages<W, kv_type::f16, kv_type::f16>(a, tile(), header().step, share.worker, phase.page_workers,
                                                worker_threads);
  turn(args.rope);
#pragma unroll 1
  for (std::uint32_t item = blockIdx.x;;) {
    attend_token<W, kv_type::f16, kv_type::f16>(args, tile(), header().step, share.worker, phase.page_workers,
                                                attention_flagged{phase, w.flag, header().turns}, shared);
    sync_workers();
    item += program.blocks;
    if (item >= phase.attention_items) return;
    share = attention_share_of(a, item);
  }
}

/// A block has every program.blocks-th expert; one warp computes its logit. Leaves the norm as the input of
/// the experts' product, whose block it is.
__device__ __forceinline__ void route(const decode_program& program, const walk& w) {
  const decode_phase& phase = slot_of(w.phase).phase;
  const route_args& a = phase.route;
  auto* const normed =
      reinterpret_cast<float*>(reinterpret_cast<__half*>(work_memory()) + padded_cols(a.width));
  // Asked for before the wait: it may be far away.
  const float first_bias =
      a.bias != nullptr && blockIdx.x < a.experts ? read_volatile(a.bias[blockIdx.x]) : 0.0F;
  take_norm(program, a.norm_eps, w, [&](std::uint32_t i, float value) { normed[i] = value; });
  sync_workers();
  const std::uint32_t mine = (a.experts + program.blocks - 1 - blockIdx.x) / program.blocks;
  std::uint32_t round = phase.route_round * mine;
#pragma unroll 1
  for (std::uint32_t expert = blockIdx.x; expert < a.experts; expert += program.blocks, ++round) {
    if (expert != blockIdx.x && threadIdx.x == 0)
      fetch_row(next_router(program), a.router + static_cast<std::uint64_t>(expert) * a.width, a.width,
                header().router_barrier);
    wait_for_row(header().router_barrier, round);
    if (threadIdx.x < 32) {
      float logit = logit_of(next_router(program), normed, a.width);
      if (a.bias != nullptr) logit = __fadd_rn(logit, expert == blockIdx.x ? first_bias : a.bias[expert]);
      if (threadIdx.x == 0) store_flagged(phase.out + expert, __float_as_uint(logit), w.flag + 1);
    }
    sync_workers();
  }
}

/// What the chosen experts return, into the block's own rows.
__device__ __forceinline__ void combine(const walk& w) {
  const phase_slot& slot = slot_of(w.phase);
  const combine_experts_args& a = slot.phase.combine;
  const std::uint32_t rows = output_tiles(slot.phase.matmul, slot.share) * tile_rows;
  for (std::uint32_t i = threadIdx.x; i < rows; i += worker_threads) {
    const result_place place = output_at(slot.phase.matmul, slot.share, i);
    if (is_padding(slot.phase.matmul, place)) continue;
    flagged_one parts[4];
    const float sum = combined(a.used, header().expert_weights, [&](std::uint32_t k) {
      if (k % 4 == 0) gather(parts, slot.phase.in + k * a.width + place.row, a.width, a.used - k, w.flag);
      const flagged_one& low = k % 2 == 0 ? parts[0] : parts[1];
      const flagged_one& high = k % 2 == 0 ? parts[2] : parts[3];
      return __uint_as_float((k % 4 < 2 ? low : high).data());
    });
    publish_residual(slot, place.row, i, __fadd_rn(header().residual[i], sum), w.flag + 1);
  }
}

/// The embedding, which the kernel before has written, as the first state of the block's own rows.
__device__ __forceinline__ void begin(const walk& w) {
  const phase_slot& slot = slot_of(w.phase);
  const packed_matmul_args& a = slot.phase.matmul;
  for (std::uint32_t i = threadIdx.x; i < output_tiles(a, slot.share) * tile_rows; i += worker_threads) {
    const result_place place = output_at(a, slot.share, i);
    if (!is_padding(a, place)) publish_residual(slot, place.row, i, a.out[place.row], w.flag + 1);
  }
}

/// The last block to leave counts the launch's phases.
__device__ __forceinline__ void leave(const decode_program& program) {
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(&program.state->left)
               : "memory");
  if (before + 1 != program.blocks) return;
  program.state->left = 0;
  program.state->phases += program.count;
}

template <std::uint32_t W, bool Stamps>
__device__ __forceinline__ void work(const decode_program& program) {
  walk w;
  w.flag = read_volatile(program.state->phases);
#pragma unroll 1
  for (; w.phase < program.count; ++w.phase, ++w.flag) {
    barrier_wait(shared_address_of(&header().stream.slot_barriers[w.phase % phase_slots]),
                 w.phase / phase_slots & 1U);
    stamp<Stamps>(program, w.phase, 0);
    switch (slot_of(w.phase).phase.kind) {
      case phase_kind::begin: begin(w); break;
      case phase_kind::matmul: multiply<Stamps>(program, w); break;
      case phase_kind::attention: attend<W>(program, w); break;
      case phase_kind::route: route(program, w); break;
      case phase_kind::combine: combine(w); break;
    }
    sync_workers();
    stamp<Stamps>(program, w.phase, 3);
    if (threadIdx.x == 0) write_volatile(header().stream.current, w.phase + 1);
    if (threadIdx.x / 32 == program_warps - 1) {
      if (threadIdx.x % 32 == 0) fetch_next_rows(program, slot_of(w.phase).phase);
      replace_phase(program, w.phase);
    }
  }
  if (threadIdx.x == 0) leave(program);
}

__device__ __forceinline__ void load(const decode_program& program) {
  const std::uint32_t worker = threadIdx.x % 32;
  if (worker >= program_warps) return;
  const std::uint32_t bytes = ring_bytes(program);
  ring_loader loader(worker, shared_address_of(ring_memory(program)) + worker * bytes, bytes);
  while (!loader.done(program.count)) {
    if (!loader.step(header().stream)) __nanosleep(20);
  }
}

/// A kernel for each width of heads: the registers of one are too few for the code of all.
template <std::uint32_t W, bool Stamps>
__global__ void __launch_bounds__(program_threads, 1)
    decode_program_kernel(const __grid_constant__ decode_program program) {
  stream_state& stream = header().stream;
  if (threadIdx.x < phase_slots) barrier_init(shared_address_of(&stream.slot_barriers[threadIdx.x]), 1);
  if (threadIdx.x < program_warps * stream_copies)
    barrier_init(shared_address_of(stream.barriers[0] + threadIdx.x), 1);
  if (threadIdx.x < program_warps) stream.read[threadIdx.x] = stream.left[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    barrier_init(shared_address_of(&header().norm_barrier), 1);
    barrier_init(shared_address_of(&header().router_barrier), 1);
    header().step = *program.step;
    header().turned = nullptr;
    stream.current = 0;
    stream.known = 0;
  }
  barrier_init_done();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (std::uint32_t i = 0; i < phase_slots; ++i) fetch_phase(program, i);
  }
  if (threadIdx.x < worker_threads)
    work<W, Stamps>(program);
  else
    load(program);
}

template <std::uint32_t W, bool Stamps>
int launch(const decode_program& program, CUstream_st* stream) {
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      decode_program_kernel<W, Stamps>, cudaFuncAttributeMaxDynamicSharedMemorySize, program_shared_bytes);
  if (opted_in != cudaSuccess) return opted_in;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(program.blocks);
  config.blockDim = dim3(program_threads);
  config.dynamicSmemBytes = program_shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, decode_program_kernel<W, Stamps>, program);
}

template <std::uint32_t W>
int launch(const decode_program& program, CUstream_st* stream) {
  return program.stamps != nullptr ? launch<W, true>(program, stream) : launch<W, false>(program, stream);
}

}  // namespace

std::uint32_t decode_program_blocks() {
  int device = 0;
  int cooperates = 0;
  std::uint32_t multiprocessors = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, device) != cudaSuccess ||
      multiprocessor_count(multiprocessors) != cudaSuccess)
    return 0;
  return cooperates != 0 ? multiprocessors : 0;
}

int launch_decode_program(const decode_program& program, CUstream_st* stream) {
  if (program.phases == nullptr || program.shares == nullptr || program.state == nullptr ||
      program.step == nullptr || program.count == 0 || program.blocks == 0 || program.work_bytes % 128 != 0 ||
      program.row_bytes % 128 != 0 || stream_bytes(program.work_bytes + program.row_bytes) == 0)
    return cudaErrorInvalidValue;
  return with_width<kv_type::f16, kv_type::f16>(
      program.padded_head_width,
      [&]<std::uint32_t W, kv_type K, kv_type V>() { return launch<W>(program, stream); });
}

}  // namespace orcd::kernels
