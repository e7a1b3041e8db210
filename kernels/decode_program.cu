#include <cuda_runtime.h>

#include "kernels/decode_attention.cuh"
#include "kernels/decode_program.hpp"
#include "kernels/expert_choice.cuh"
#include "kernels/launch.cuh"
#include "kernels/program_block.cuh"

namespace orcd::kernels {
namespace {

using engine::kv_type;

static_assert(sizeof(decode_shared<32>) <= attention_work_bytes(32) &&
              sizeof(decode_shared<64>) <= attention_work_bytes(64) &&
              sizeof(decode_shared<96>) <= attention_work_bytes(96) &&
              sizeof(decode_shared<128>) <= attention_work_bytes(128));

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

/// This worker's chunks of the phase, their sums kept.
__device__ __forceinline__ void multiply_chunks(const decode_program& program, walk& w, const __half* x,
                                                float* sums) {
  stream_state& stream = header().stream;
  const std::uint32_t worker = threadIdx.x / 32;
  const std::byte* const ring =
      work_memory() + program.work_bytes + worker * stream_bytes(program.work_bytes);
  const std::uint32_t chunks = slot_of(w.phase).share.chunks;
#pragma unroll 1
  for (std::uint32_t left = w.reader.mine(chunks, worker); left > 0; --left) {
    const stream_chunk c = w.reader.wait(stream, worker);
    float acc[4] = {0.0F, 0.0F, 0.0F, 0.0F};
    with_format(c.format, 0, [&](auto format) {
      multiply_chunk_ahead<decltype(format)::value>(ring + c.at, c.groups, x + c.chunk * chunk_cols, acc);
      return 0;
    });
    w.reader.done(stream, worker);
    keep_sums(sums + c.index * tile_rows, 1, acc);
  }
  w.reader.before += chunks;
}

/// A new state of one of the block's own rows of the residual stream, to all blocks and to what comes after
/// the kernel.
__device__ __forceinline__ void publish_residual(const phase_slot& slot, const result_place& place,
                                                 std::uint32_t i, float value, std::uint32_t flag) {
  header().residual[i] = value;
  store_flagged(slot.phase.out + place.row, __float_as_uint(value), flag);
  slot.phase.matmul.out[place.row] = value;
}

__device__ __forceinline__ void store_outputs(const phase_slot& slot, std::uint32_t outputs,
                                              const float* sums, std::uint32_t expert, std::uint32_t flag) {
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t chunks = slot.phase.chunks.d;
  copied_floats();
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < outputs; i += worker_threads) {
    const result_place place = output_at(a, slot.share, i);
    const bool padding = is_padding(a, place);
    const float* mine = sums + i / tile_rows * chunks * tile_rows + i % tile_rows;
    const float first = fold(mine, chunks, tile_rows);
    const result_terms terms =
        i < terms_ahead || padding ? header().terms[i % terms_ahead] : terms_of(a, place, expert);
    if (is_paired(a)) {
      const float second = fold(mine + slot.share.tiles[0] * chunks * tile_rows, chunks, tile_rows);
      // Rows 2 n and 2 n + 1 are neighbours in one warp, whose first or whose all lanes have an output.
      const std::uint32_t lanes = i / 32 * 32 + 32 <= outputs ? 0xFFFFFFFFU : 0xFFFFU;
      const std::uint32_t half = padding ? 0U : __half_as_ushort(activated(a.output, terms, first, second));
      const std::uint32_t next = __shfl_xor_sync(lanes, half, 1);
      if (i % 2 == 0 && !padding)
        store_flagged(slot.phase.out + (place.column * a.act_stride + place.row) / 2, half | next << 16U,
                      flag);
    } else if (padding) {
      continue;
    } else if (a.output == matmul_output::add) {
      publish_residual(slot, place, i, __fadd_rn(header().residual[i], with_terms(terms, 0, first)), flag);
    } else {
      store_flagged(slot.phase.out + place.column * a.out_stride + place.out_row,
                    __float_as_uint(with_terms(terms, 0, first)), flag);
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

__device__ __forceinline__ void multiply(const decode_program& program, walk& w) {
  const phase_slot& slot = slot_of(w.phase);
  const packed_matmul_args& a = slot.phase.matmul;
  const std::uint32_t cols = a.w[0].cols;
  const std::uint32_t outputs = output_tiles(a, slot.share) * tile_rows;
  const bool chooses = slot.phase.chooses;
  if (outputs == 0 && !chooses) {
    stamp(program, w.phase, 1);
    stamp(program, w.phase, 2);
    return;
  }
  const bool ahead = threadIdx.x < min(outputs, terms_ahead);
  const bool norms = a.norm_x != nullptr;
  const norm_memory memory(norms ? cols : 0);
  auto* const x = reinterpret_cast<__half*>(memory.rest);
  auto* const sums = reinterpret_cast<float*>(memory.rest + matmul_input_bytes(a));
  result_terms& terms = header().terms[threadIdx.x % terms_ahead];
  const result_place place = ahead ? output_at(a, slot.share, threadIdx.x) : result_place{};
  std::uint32_t expert = 0;
  if (threadIdx.x == 0 && norms && !chooses) {
    expect_rows(cols * 4);
    fetch_row(memory.weights, a.norm_weight, cols * 4);
  }
  if (ahead && a.experts == nullptr) fetch_terms(a, place, 0, terms);
  if (chooses) choose_experts(slot, w);
  if (a.experts != nullptr) {
    expert = static_cast<std::uint32_t>(header().stream.chosen[slot.share.item]);
    if (ahead) fetch_terms(a, place, expert, terms);
  }
  const std::uint32_t padded = a.w[0].groups() * group_cols;
  if (chooses) {
    // route() has left the input.
  } else if (norms) {
    norm_of(slot.phase.in, cols, padded, a.norm_eps, memory, w,
            [&](std::uint32_t i, float value) { x[i] = to_half(value); });
  } else {
    stage_halfs(slot.phase.in + slot.share.item / a.x_divisor * a.x_stride / 2, cols, padded, w.flag, x);
  }
  sync_workers();
  stamp(program, w.phase, 1);
  multiply_chunks(program, w, x + 16 * (threadIdx.x % 4), sums);
  sync_workers();
  stamp(program, w.phase, 2);
  store_outputs(slot, outputs, sums, expert, w.flag + 1);
}

/// Attention's values from and to other blocks.
struct attention_flagged {
  const decode_phase& phase;
  std::uint32_t flag;

  __device__ __forceinline__ void read(std::uint32_t index, float (&v)[head_values_per_lane]) const {
    const std::uint32_t width = phase.attention.rope.width;
    const std::uint64_t* const from = phase.in + index * width + threadIdx.x % 32;
    flagged_one word[head_values_per_lane];
#pragma unroll
    for (std::uint32_t i = 0; i < head_values_per_lane; ++i) {
      if (threadIdx.x % 32 + 32 * i < width) word[i].load(from + 32 * i);
    }
#pragma unroll
    for (std::uint32_t i = 0; i < head_values_per_lane; ++i) {
      v[i] = 0.0F;
      if (threadIdx.x % 32 + 32 * i >= width) continue;
      await(word[i], from + 32 * i, flag);
      v[i] = __uint_as_float(word[i].data());
    }
  }
  __device__ __forceinline__ void write(std::uint32_t d, __half first, __half second) const {
    store_flagged(phase.out + d / 2,
                  __half_as_ushort(first) | static_cast<std::uint32_t>(__half_as_ushort(second)) << 16U,
                  flag + 1);
  }
};

template <std::uint32_t W>
__device__ __forceinline__ void attend_width(const decode_program& program, const walk& w) {
  const decode_phase& phase = slot_of(w.phase).phase;
  const decode_attention_args& args = phase.attention;
  const attention_args_paged& a = args.attend;
  auto& shared = *reinterpret_cast<decode_shared<W>*>(work_memory());
  const std::uint32_t head_tiles = decode_head_tiles(a);
  const std::uint32_t tiles = head_tiles * a.kv_heads;
  const std::uint32_t items = tiles * phase.page_workers;
  const bool works = threadIdx.x < row_threads;
  const auto tile_of = [&](std::uint32_t item) {
    return decode_tile(a, item % tiles % head_tiles, item % tiles / head_tiles);
  };
  if (works && blockIdx.x < items)
    prepare_attention<W, kv_type::f16, kv_type::f16>(args, tile_of(blockIdx.x), blockIdx.x / tiles, shared);
  if (!works) return;
#pragma unroll 1
  for (std::uint32_t item = blockIdx.x; item < items; item += program.blocks) {
    attend_token<W, kv_type::f16, kv_type::f16>(args, tile_of(item), item / tiles, phase.page_workers,
                                                attention_flagged{phase, w.flag}, shared);
    sync_row_threads();
  }
}

__device__ __forceinline__ void attend(const decode_program& program, const walk& w) {
  switch (slot_of(w.phase).phase.attention.attend.padded_width) {
    case 32: return attend_width<32>(program, w);
    case 64: return attend_width<64>(program, w);
    case 96: return attend_width<96>(program, w);
    default: return attend_width<128>(program, w);
  }
}

/// A block has every program.blocks-th expert; one warp computes its logit. Leaves the norm as the input of
/// the experts' product, whose block it is.
__device__ __forceinline__ void route(const decode_program& program, walk& w) {
  const decode_phase& phase = slot_of(w.phase).phase;
  const route_args& a = phase.route;
  const norm_memory memory(a.width);
  const std::uint32_t padded = (a.width + group_cols - 1) / group_cols * group_cols;
  auto* const x = reinterpret_cast<__half*>(memory.rest);
  auto* const normed = reinterpret_cast<float*>(memory.rest + padded * sizeof(__half));
  float* const expert_row = normed + a.width;
  const std::uint32_t row_bytes = a.width * static_cast<std::uint32_t>(sizeof(float));
  const auto router_row = [&](std::uint32_t expert) {
    return a.router + static_cast<std::uint64_t>(expert) * a.width;
  };
  if (threadIdx.x == 0) {
    expect_rows(blockIdx.x < a.experts ? 2 * row_bytes : row_bytes);
    fetch_row(memory.weights, a.norm_weight, row_bytes);
    if (blockIdx.x < a.experts) fetch_row(expert_row, router_row(blockIdx.x), row_bytes);
  }
  norm_of(phase.in, a.width, padded, a.norm_eps, memory, w, [&](std::uint32_t i, float value) {
    x[i] = to_half(value);
    if (i < a.width) normed[i] = value;
  });
#pragma unroll 1
  for (std::uint32_t expert = blockIdx.x; expert < a.experts; expert += program.blocks) {
    if (expert != blockIdx.x) {
      if (threadIdx.x == 0) {
        expect_rows(row_bytes);
        fetch_row(expert_row, router_row(expert), row_bytes);
      }
      wait_for_rows(w);
    }
    sync_workers();
    if (threadIdx.x < 32) {
      float logit = logit_of(expert_row, normed, a.width);
      if (a.bias != nullptr) logit = __fadd_rn(logit, a.bias[expert]);
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
    const float sum = combined(a.used, header().expert_weights, [&](std::uint32_t k) {
      return __uint_as_float(read_flagged(slot.phase.in + k * a.width + place.row, w.flag));
    });
    publish_residual(slot, place, i, __fadd_rn(header().residual[i], sum), w.flag + 1);
  }
}

/// The embedding, which the kernel before has written, as the first state of the block's own rows.
__device__ __forceinline__ void begin(const walk& w) {
  const phase_slot& slot = slot_of(w.phase);
  const packed_matmul_args& a = slot.phase.matmul;
  for (std::uint32_t i = threadIdx.x; i < output_tiles(a, slot.share) * tile_rows; i += worker_threads) {
    const result_place place = output_at(a, slot.share, i);
    if (!is_padding(a, place)) publish_residual(slot, place, i, a.out[place.row], w.flag + 1);
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

__device__ __forceinline__ void work(const decode_program& program) {
  walk w;
  w.flag = read_volatile(program.state->phases);
#pragma unroll 1
  for (; w.phase < program.count; ++w.phase, ++w.flag) {
    barrier_wait(shared_address_of(&header().stream.slot_barriers[w.phase % phase_slots]),
                 w.phase / phase_slots & 1U);
    stamp(program, w.phase, 0);
    switch (slot_of(w.phase).phase.kind) {
      case phase_kind::begin: begin(w); break;
      case phase_kind::matmul: multiply(program, w); break;
      case phase_kind::attention: attend(program, w); break;
      case phase_kind::route: route(program, w); break;
      case phase_kind::combine: combine(w); break;
    }
    sync_workers();
    stamp(program, w.phase, 3);
    if (threadIdx.x == 0) write_volatile(header().stream.current, w.phase + 1);
    if (threadIdx.x / 32 == program_warps - 1) replace_phase(program, w.phase);
  }
  if (threadIdx.x == 0) leave(program);
}

__device__ __forceinline__ void load(const decode_program& program) {
  const std::uint32_t worker = threadIdx.x % 32;
  if (worker >= program_warps) return;
  const std::uint32_t bytes = stream_bytes(program.work_bytes);
  ring_loader loader(worker, shared_address_of(work_memory()) + program.work_bytes + worker * bytes, bytes);
  while (!loader.done(program.count)) {
    if (!loader.step(header().stream)) __nanosleep(20);
  }
}

__global__ void __launch_bounds__(program_threads, 1)
    decode_program_kernel(const __grid_constant__ decode_program program) {
  stream_state& stream = header().stream;
  if (threadIdx.x < phase_slots) barrier_init(shared_address_of(&stream.slot_barriers[threadIdx.x]), 1);
  if (threadIdx.x < program_warps * stream_copies)
    barrier_init(shared_address_of(stream.barriers[0] + threadIdx.x), 1);
  if (threadIdx.x < program_warps) stream.read[threadIdx.x] = stream.left[threadIdx.x] = 0;
  if (threadIdx.x == 0) {
    barrier_init(shared_address_of(&header().row_barrier), 1);
    stream.current = 0;
    stream.known = 0;
  }
  barrier_init_done();
  __syncthreads();
  if (threadIdx.x == 0) {
    for (std::uint32_t i = 0; i < phase_slots; ++i) fetch_phase(program, i);
  }
  if (threadIdx.x < worker_threads)
    work(program);
  else
    load(program);
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
      program.count == 0 || program.blocks == 0 || program.work_bytes % 128 != 0 ||
      stream_bytes(program.work_bytes) == 0)
    return cudaErrorInvalidValue;
  static const cudaError_t opted_in = cudaFuncSetAttribute(
      decode_program_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, program_shared_bytes);
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
  return cudaLaunchKernelEx(&config, decode_program_kernel, program);
}

}  // namespace orcd::kernels
