#include <cuda_runtime.h>

#include "kernels/attention/kv_layout.hpp"
#include "kernels/attention/kv_page.cuh"
#include "kernels/attention/page_control.hpp"
#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t threads = 256;
constexpr std::uint32_t slice_positions = 32;  ///< of a block
constexpr std::uint32_t clear_blocks = 8;      ///< of a page
static_assert(sizeof(write_words_args) <= parameter_bytes_max);
static_assert(sizeof(clear_pages_args) <= parameter_bytes_max);

__global__ void __launch_bounds__(threads) write_words_kernel(const write_words_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  for (std::uint32_t i = threadIdx.x; i < a.count; i += threads) a.to[i] = a.words[i];
}

/// The keys or the values of a (page, kv head).
__device__ std::byte* head_page(const kv_pages& cache, bool is_v, std::int32_t page, std::uint32_t kv_heads,
                                std::uint32_t head, std::uint32_t padded_width) {
  const std::uint64_t bytes = head_page_bytes(is_v ? cache.value_type : cache.key_type, padded_width);
  return static_cast<std::byte*>(is_v ? cache.values : cache.keys) +
         (static_cast<std::uint64_t>(page) * kv_heads + head) * bytes;
}

/// grid: (kv_heads, keys and values, slices of the page). Neighbouring threads take neighbouring bytes.
__global__ void __launch_bounds__(threads) copy_positions_kernel(const copy_positions_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const bool is_v = blockIdx.y == 1;
  const engine::kv_type type = is_v ? a.cache.value_type : a.cache.key_type;
  const std::byte* from = head_page(a.cache, is_v, a.from, a.kv_heads, blockIdx.x, a.padded_width);
  std::byte* to = head_page(a.cache, is_v, a.to, a.kv_heads, blockIdx.x, a.padded_width);
  const std::uint32_t columns = is_v ? engine::kv_page_positions : a.padded_width;
  for (std::uint32_t i = threadIdx.x; i < slice_positions * a.padded_width; i += threads) {
    const std::uint32_t place =
        blockIdx.z * slice_positions + (is_v ? i % slice_positions : i / a.padded_width);
    const std::uint32_t d = is_v ? i / slice_positions : i % a.padded_width;
    if (place >= a.positions) continue;
    const std::uint32_t row = is_v ? d : place;
    const std::uint32_t column = is_v ? place : d;
    if (type != engine::kv_type::q8_0) {
      const std::uint32_t at = row * columns + column;
      reinterpret_cast<std::uint16_t*>(to)[at] = reinterpret_cast<const std::uint16_t*>(from)[at];
      continue;
    }
    const std::uint32_t quant = kv_quant_place(row, column, columns);
    to[quant] = from[quant];
    const std::uint32_t block = d / engine::kv_block_values;
    if (d % engine::kv_block_values != 0) continue;
    const std::uint32_t scale =
        engine::kv_page_positions * a.padded_width / 2 +
        (is_v ? kv_value_scale_place(place, block) : kv_key_scale_place(place, block));
    reinterpret_cast<std::uint16_t*>(to)[scale] = reinterpret_cast<const std::uint16_t*>(from)[scale];
  }
}

/// grid: (clear_blocks, pages, keys and values of each layer). A page's heads lie together, whole 16-byte
/// words each.
__global__ void __launch_bounds__(threads) clear_pages_kernel(const clear_pages_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const bool is_v = blockIdx.z % 2 == 1;
  const std::uint64_t page_bytes =
      head_page_bytes(is_v ? a.value_type : a.key_type, a.padded_width) * a.kv_heads;
  auto* const pages = static_cast<std::byte*>(is_v ? a.values[blockIdx.z / 2] : a.keys[blockIdx.z / 2]);
  auto* const words =
      reinterpret_cast<uint4*>(pages + static_cast<std::uint64_t>(a.pages[blockIdx.y]) * page_bytes);
  const std::uint64_t count = page_bytes / sizeof(uint4);
  for (std::uint64_t i = blockIdx.x * threads + threadIdx.x; i < count; i += clear_blocks * threads) {
    words[i] = make_uint4(0, 0, 0, 0);
  }
}

bool complete(const void* keys, const void* values, std::uint32_t kv_heads, std::uint32_t padded_width) {
  return keys != nullptr && values != nullptr && kv_heads > 0 && padded_width > 0 &&
         padded_width <= head_width_max && padded_width % head_width_step == 0;
}

}  // namespace

int launch_write_words(const write_words_args& a, CUstream_st* stream) {
  if (a.to == nullptr || a.count == 0 || a.count > written_words_max) return cudaErrorInvalidValue;
  return launch_dependent(write_words_kernel, dim3(1), dim3(threads), 0, stream, a);
}

int launch_copy_positions(const copy_positions_args& a, CUstream_st* stream) {
  if (!complete(a.cache.keys, a.cache.values, a.kv_heads, a.padded_width) || a.from < 0 || a.to < 0 ||
      a.from == a.to || a.positions == 0 || a.positions > engine::kv_page_positions) {
    return cudaErrorInvalidValue;
  }
  const std::uint32_t slices = (a.positions + slice_positions - 1) / slice_positions;
  return launch_dependent(copy_positions_kernel, dim3(a.kv_heads, 2, slices), dim3(threads), 0, stream, a);
}

int launch_clear_pages(const clear_pages_args& a, CUstream_st* stream) {
  if (a.count == 0 || a.count > cleared_pages_max || a.layers == 0 || a.layers > cleared_layers_max)
    return cudaErrorInvalidValue;
  for (std::uint32_t i = 0; i < a.layers; ++i) {
    if (!complete(a.keys[i], a.values[i], a.kv_heads, a.padded_width)) return cudaErrorInvalidValue;
  }
  for (std::uint32_t i = 0; i < a.count; ++i) {
    if (a.pages[i] < 0) return cudaErrorInvalidValue;
  }
  return launch_dependent(clear_pages_kernel, dim3(clear_blocks, a.count, 2 * a.layers), dim3(threads), 0,
                          stream, a);
}

}  // namespace orcd::kernels
