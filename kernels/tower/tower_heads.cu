// A block has one patch; each of its warps takes every eighth of the heads of Q, K and V.
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/tower/tower_attention.hpp"
#include "kernels/tower/tower_heads.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t heads_warps = row_threads / 32;

__global__ void __launch_bounds__(row_threads) turn_table_kernel(const turn_table_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint64_t at = static_cast<std::uint64_t>(blockIdx.x) * row_threads + threadIdx.x;
  if (at >= static_cast<std::uint64_t>(a.patches) * a.pairs) return;
  const view_place place = a.places[at / a.pairs];
  const auto pair = static_cast<std::uint32_t>(at % a.pairs);
  const bool by_line = (pair < a.pairs / 2) == a.lines_first;
  float sine;
  float cosine;
  sincosf(__fmul_rn(static_cast<float>(by_line ? place.line : place.column), a.rates[pair]), &sine, &cosine);
  a.table[at] = {cosine, sine};
}

/// Where value d of a head has its pair: the entry of the table, the other value, and which of the two it is.
struct pair_place {
  std::uint32_t entry;
  std::uint32_t other;
  bool first;

  __device__ __forceinline__ pair_place(turned_pairs pairs, std::uint32_t width, std::uint32_t d) {
    if (pairs == turned_pairs::neighbours) {
      entry = d / 2;
      other = d ^ 1U;
      first = d % 2 == 0;
      return;
    }
    const std::uint32_t step = pairs == turned_pairs::halves ? width / 2 : width / 4;
    const std::uint32_t part = d / (2 * step);
    const std::uint32_t within = d - part * 2 * step;
    first = within < step;
    other = first ? d + step : d - step;
    entry = part * step + (first ? within : within - step);
  }
};

__device__ __forceinline__ float turned(const tower_heads_args& a, const float2* table, const float* head,
                                        std::uint32_t d) {
  if (table == nullptr) return head[d];
  const pair_place place(a.pairs, a.width, d);
  const float2 by = table[place.entry];
  const float x = head[d];
  const float y = head[place.other];
  return place.first ? __fmaf_rn(x, by.x, -__fmul_rn(y, by.y)) : __fmaf_rn(y, by.y, __fmul_rn(x, by.x));
}

/// One warp: brings a head into shared memory, normed if it has a norm. Synchronized at the end.
__device__ __forceinline__ void load_head(const float* from, const tower_heads_args& a, const float* weight,
                                          float* head) {
  const std::uint32_t lane = threadIdx.x % 32;
  float squares = 0.0F;
  for (std::uint32_t d = lane; d < a.width; d += 32) {
    head[d] = from[d];
    squares = __fmaf_rn(from[d], from[d], squares);
  }
  if (a.norms) {
    const float scale = rms_scale(warp_sum(squares), a.width, a.eps);
    for (std::uint32_t d = lane; d < a.width; d += 32)
      head[d] = __fmul_rn(__fmul_rn(head[d], scale), weight == nullptr ? 1.0F : weight[d]);
  }
  __syncwarp();
}

/// grid: (columns)
__global__ void __launch_bounds__(row_threads)
    tower_heads_kernel(const __grid_constant__ tower_heads_args a) {
  __shared__ float heads[heads_warps][tower_head_max];
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t lane = threadIdx.x % 32;
  const std::uint32_t patch = a.first + blockIdx.x;
  const std::uint32_t padded = tower_head_width(a.width);
  float* const head = heads[threadIdx.x / 32];
  const float* const row = a.qkv + static_cast<std::uint64_t>(blockIdx.x) * 3 * a.heads * a.width;
  const float2* const table =
      a.pairs == turned_pairs::none ? nullptr : a.table + static_cast<std::uint64_t>(patch) * (a.width / 2);
  for (std::uint32_t index = threadIdx.x / 32; index < 3 * a.heads; index += heads_warps) {
    const std::uint32_t part = index / a.heads;
    load_head(row + index * a.width, a, part == 0 ? a.q_norm : part == 1 ? a.k_norm : nullptr, head);
    __half* const to = (part == 0   ? a.q
                        : part == 1 ? a.k
                                    : a.v) +
                       (static_cast<std::uint64_t>(index - part * a.heads) * a.positions + patch) * padded;
    const float2* const turns = part == 2 ? nullptr : table;
    const auto value = [&](std::uint32_t d) { return d < a.width ? turned(a, turns, head, d) : 0.0F; };
    for (std::uint32_t d = 2 * lane; d < padded; d += 64)
      *reinterpret_cast<__half2*>(to + d) = {to_half(value(d)), to_half(value(d + 1))};
    __syncwarp();
  }
}

}  // namespace

int launch_turn_table(const turn_table_args& a, CUstream_st* stream) {
  if (a.places == nullptr || a.rates == nullptr || a.table == nullptr || a.patches == 0 || a.pairs == 0 ||
      a.pairs % 2 != 0)
    return cudaErrorInvalidValue;
  const std::uint64_t values = std::uint64_t{a.patches} * a.pairs;
  const auto blocks = static_cast<std::uint32_t>((values + row_threads - 1) / row_threads);
  return launch_dependent(turn_table_kernel, dim3(blocks), dim3(row_threads), 0, stream, a);
}

int launch_tower_heads(const tower_heads_args& a, CUstream_st* stream) {
  const bool turns = a.pairs != turned_pairs::none;
  if (a.qkv == nullptr || a.q == nullptr || a.k == nullptr || a.v == nullptr || a.columns == 0 ||
      std::uint64_t{a.first} + a.columns > a.positions || a.heads == 0 || a.width == 0 ||
      a.width > tower_head_max || (turns && (a.table == nullptr || a.width % 4 != 0)))
    return cudaErrorInvalidValue;
  return launch_dependent(tower_heads_kernel, dim3(a.columns), dim3(row_threads), 0, stream, a);
}

}  // namespace orcd::kernels
