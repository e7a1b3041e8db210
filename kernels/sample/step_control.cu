// One small kernel begins a step: it writes what the step's other kernels read, from its own parameters.
#include <cuda_runtime.h>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/sample/step_control.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t chunk_threads = 256;
static_assert(sizeof(begin_decode_args) <= parameter_bytes_max);
static_assert(sizeof(begin_chunk_args) <= parameter_bytes_max);

/// What no medium changes.
__device__ __forceinline__ void write_place(const step_target& to, std::uint32_t column,
                                            std::int32_t position, std::int32_t shift) {
  const std::int32_t turned = position - shift;
  if (to.turns != nullptr) to.turns[column] = {{turned, turned, turned}};
  if (to.blocks != nullptr) to.blocks[column] = {0, 0};
}

__global__ void __launch_bounds__(decode_sequences_max) begin_decode_kernel(const begin_decode_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  if (threadIdx.x == 0) *a.to.ticket = a.ticket;
  if (threadIdx.x >= a.count) return;
  const decode_sequence& sequence = a.sequences[threadIdx.x];
  slot_state& slot = a.to.slots[sequence.slot];
  const bool fed_back = sequence.token < 0;
  const bool active = !fed_back || slot.ended == 0;
  // Several columns may write one slot's state, which nobody reads before the host has written it again.
  const std::int32_t position = !fed_back ? sequence.position : slot.position + (active ? 1 : 0);
  const std::int32_t token = !fed_back ? sequence.token : active ? slot.next : slot.token;
  if (active) {
    slot.position = position;
    slot.token = token;
    slot.ended = 0;
    a.to.history[static_cast<std::uint64_t>(sequence.slot) * a.to.history_stride + position] = token;
  }
  const std::uint32_t row = a.row + threadIdx.x;
  a.to.steps[a.first + threadIdx.x] = {token, position, sequence.slot};
  write_place(a.to, a.first + threadIdx.x, position, sequence.shift);
  a.to.sample_rows[row] = static_cast<std::int32_t>(a.first + threadIdx.x);
  sample_column& asked = a.to.asked[row];
  asked.request = sequence.sample;
  asked.slot = sequence.slot;
  asked.position = position;
  asked.active = active ? 1 : 0;
}

__global__ void __launch_bounds__(chunk_threads) begin_chunk_kernel(const begin_chunk_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  std::int32_t* history = a.to.history + static_cast<std::uint64_t>(a.slot) * a.to.history_stride;
  for (std::uint32_t i = threadIdx.x; i < a.count; i += chunk_threads) {
    const std::int32_t position = a.position + static_cast<std::int32_t>(i);
    a.to.steps[a.first + i] = {max(a.tokens[i], 0), position, a.slot};
    write_place(a.to, a.first + i, position, a.shift);
    history[position] = a.tokens[i];
  }
  if (threadIdx.x != 0) return;
  *a.to.ticket = a.ticket;
  const std::int32_t last = a.position + static_cast<std::int32_t>(a.count) - 1;
  a.to.slots[a.slot] = {a.tokens[a.count - 1], last, -1, 0};
  if (a.samples == 0) return;
  a.to.sample_rows[a.row] = static_cast<std::int32_t>(a.first + a.count) - 1;
  a.to.asked[a.row] = {a.sample, a.slot, last, 1};
}

bool complete(const step_target& to) {
  return to.steps != nullptr && to.asked != nullptr && to.slots != nullptr && to.history != nullptr &&
         to.history_stride > 0 && to.sample_rows != nullptr && to.ticket != nullptr;
}

}  // namespace

int launch_begin_decode(const begin_decode_args& a, CUstream_st* stream) {
  if (!complete(a.to) || a.count == 0 || a.count > decode_sequences_max) return cudaErrorInvalidValue;
  for (std::uint32_t i = 0; i < a.count; ++i) {
    const decode_sequence& c = a.sequences[i];
    if (c.slot < 0 ||
        (c.token >= 0 && (c.position < 0 || c.position >= static_cast<std::int64_t>(a.to.history_stride)))) {
      return cudaErrorInvalidValue;
    }
  }
  return launch_dependent(begin_decode_kernel, dim3(1), dim3(decode_sequences_max), 0, stream, a);
}

int launch_begin_chunk(const begin_chunk_args& a, CUstream_st* stream) {
  if (!complete(a.to) || a.count == 0 || a.count > chunk_tokens_max || a.slot < 0 || a.position < 0 ||
      static_cast<std::uint64_t>(a.position) + a.count > a.to.history_stride) {
    return cudaErrorInvalidValue;
  }
  return launch_dependent(begin_chunk_kernel, dim3(1), dim3(chunk_threads), 0, stream, a);
}

}  // namespace orcd::kernels
