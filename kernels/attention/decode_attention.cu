// Decode attention as a kernel of its own (decode_attention.cuh), and its launch.
#include <type_traits>

#include "kernels/attention/attention_dispatch.cuh"
#include "kernels/attention/decode_attention.cuh"
#include "kernels/attention/paged_attention.hpp"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

using engine::kv_type;

/// Blocks of a multiprocessor where there are more than two. Wider heads wait longer for memory and need more
/// of them.
template <std::uint32_t W>
constexpr std::uint32_t many_blocks = W <= 64    ? 3
                                      : W <= 128 ? 4
                                      : W <= 256 ? 2
                                                 : 1;

/// The widest heads need more shared memory than a kernel has without asking for it.
template <std::uint32_t W>
constexpr bool asks_for_memory = W > narrow_head_max;

/// grid: (columns * head tiles, kv heads, page workers); a worker takes every gridDim.z-th page.
template <std::uint32_t W, kv_type K, kv_type V, std::uint32_t Blocks>
__global__ void __launch_bounds__(attention_memory<W, Blocks>::warps * 32,
                                  Blocks > 0 ? Blocks : many_blocks<W>)
    decode_kernel(const __grid_constant__ decode_attention_args args) {
  using memory = attention_memory<W, Blocks>;
  using shared_memory = decode_shared<W, memory::warps>;
  extern __shared__ uint4 asked_for[];
  __shared__ std::conditional_t<asks_for_memory<W>, std::uint32_t, shared_memory> given;
  __shared__ float2 rope_cos_sin[16 * head_values_per_lane<W>];
  shared_memory* shared = nullptr;
  if constexpr (asks_for_memory<W>)
    shared = reinterpret_cast<shared_memory*>(asked_for);
  else
    shared = &given;
  const decode_tile tile = tile_of(args.attend, blockIdx.x, blockIdx.y);
  const step_token step = args.attend.steps[tile.column];
  if (threadIdx.x < args.rope.rope_dims / 2)
    rope_cos_sin[threadIdx.x] = rope_cos_sin_of(args.rope, tile.column, step.position, threadIdx.x);
  if (args.pages_asked > 0)
    prefetch_pages<W, K, V>(args.attend, tile, step, blockIdx.z, gridDim.z, args.pages_asked, threadIdx.x,
                            blockDim.x);
  else if (step.position >= 0)
    prefetch_own_span<W, K, V, memory::prefetches_keys>(
        args.attend, tile, step, page_range(args.attend, step.position).first + blockIdx.z);
  __syncthreads();
  attend_token<W, K, V>(args, tile, step, blockIdx.z, gridDim.z, memory{args, tile.column, rope_cos_sin},
                        *shared);
}

template <std::uint32_t W, kv_type K, kv_type V, std::uint32_t Blocks>
int launch_blocks(decode_attention_args args, dim3 grid, std::uint32_t multiprocessors, cudaStream_t stream) {
  constexpr std::uint32_t warps = attention_memory<W, Blocks>::warps;
  constexpr std::size_t bytes = asks_for_memory<W> ? sizeof(decode_shared<W, warps>) : 0;
  if constexpr (asks_for_memory<W>) {
    static const cudaError_t opted_in = cudaFuncSetAttribute(
        decode_kernel<W, K, V, Blocks>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (opted_in != cudaSuccess) return opted_in;
  }
  const std::uint32_t running = (Blocks > 0 ? Blocks : many_blocks<W>)*multiprocessors;
  args.pages_asked = pages_to_ask<W, K, V>(grid.x * grid.y * grid.z, 2 * multiprocessors, running);
  return launch_dependent(decode_kernel<W, K, V, Blocks>, grid, dim3(warps * 32), bytes, stream, args);
}

template <std::uint32_t W, kv_type K, kv_type V>
int launch_decode(const decode_attention_args& args, cudaStream_t stream) {
  const attention_args_paged& a = args.attend;
  std::uint32_t multiprocessors = 0;
  if (const cudaError_t status = multiprocessor_count(multiprocessors); status != cudaSuccess) return status;
  // As many workers as fill the device with two blocks a multiprocessor; in short contexts most have no page.
  const dim3 grid(a.columns * decode_head_tiles(a), a.kv_heads,
                  decode_page_workers(a, a.columns, 2 * multiprocessors));
  // Keys in registers would be older than what the kernel before has stored, and the step's own are not there
  // where another layer has stored them; the widest heads leave no registers for them.
  if constexpr (K == kv_type::f16 && V == kv_type::f16 && W <= narrow_head_max) {
    if (args.stored || args.rope.queries_only)
      return launch_blocks<W, K, V, 0>(args, grid, multiprocessors, stream);
    const std::uint32_t blocks = grid.x * grid.y * grid.z;
    // More warps help narrow heads, of which a tile has up to eight; wide heads come one to a tile in the
    // models served.
    if constexpr (W <= 64) {
      if (blocks <= multiprocessors) return launch_blocks<W, K, V, 1>(args, grid, multiprocessors, stream);
    }
    return launch_blocks<W, K, V, 2>(args, grid, multiprocessors, stream);
  }
  return launch_blocks<W, K, V, 0>(args, grid, multiprocessors, stream);
}

}  // namespace

int launch_attention_decode(const decode_attention_args& a, CUstream_st* stream) {
  if (!valid_attention(a.attend) || !valid_rope(a.rope) || a.partials == nullptr || a.arrivals == nullptr ||
      a.rope.columns != a.attend.columns || a.rope.heads != a.attend.heads ||
      a.rope.kv_heads != a.attend.kv_heads || a.rope.padded_width != a.attend.padded_width)
    return cudaErrorInvalidValue;
  if (a.stored && rows_share(a.attend)) return launch_attention_rows(a, stream);
  return with_shape(
      a.attend, [&]<std::uint32_t W, kv_type K, kv_type V>() { return launch_decode<W, K, V>(a, stream); });
}

}  // namespace orcd::kernels
