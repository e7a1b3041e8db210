// What comes before a scan: which columns are one sequence's, convolutions over their tokens, unit vectors
// and gates; and rows that are kept. A convolution goes through a few columns with the last rows in
// registers.
#include <cuda_fp16.h>

#include <algorithm>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/product/packed_matrix.hpp"
#include "kernels/recurrent/recurrent_layer.hpp"

namespace orcd::kernels {
namespace {

constexpr std::uint32_t tile_columns = 8;  ///< that a block of a convolution goes through
constexpr std::uint32_t conv_threads = 256;
constexpr std::uint32_t taps_max = 8;
constexpr std::uint32_t run_threads = 1'024;

/// Whether a column begins a run.
__device__ bool begins(const step_token* steps, std::uint32_t column) {
  return column == 0 || steps[column - 1].slot != steps[column].slot;
}

/// One block: the runs in the order of their columns.
__global__ void __launch_bounds__(run_threads) find_runs_kernel(const find_runs_args a) {
  __shared__ std::uint32_t counts[run_threads / 32];
  __shared__ std::uint32_t before;
  wait_for_previous_kernel();
  allow_next_kernel();
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
  const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (std::uint32_t first = 0; first < a.columns; first += run_threads) {
    const std::uint32_t column = first + threadIdx.x;
    const bool is_first = column < a.columns && begins(a.steps, column);
    const std::uint32_t set = __ballot_sync(0xFFFFFFFFU, is_first);
    if (lane == 0) counts[warp] = static_cast<std::uint32_t>(__popc(set));
    __syncthreads();
    std::uint32_t index = before + static_cast<std::uint32_t>(__popc(set & ((1U << lane) - 1)));
    for (std::uint32_t w = 0; w < warp; ++w) index += counts[w];
    if (is_first) {
      const step_token& step = a.steps[column];
      a.runs[index] = {static_cast<std::int32_t>(column), 0, step.position, step.slot};
    }
    __syncthreads();
    if (threadIdx.x == run_threads - 1) before = index + (is_first ? 1 : 0);
    __syncthreads();
  }
  const std::uint32_t total = before;
  for (std::uint32_t i = threadIdx.x; i < total; i += run_threads) {
    const std::int32_t end = i + 1 < total ? a.runs[i + 1].column : static_cast<std::int32_t>(a.columns);
    a.runs[i].count = end - a.runs[i].column;
  }
  if (threadIdx.x == 0) *a.run_count = static_cast<std::int32_t>(total);
}

/// One channel of a convolution on its way through neighbouring columns.
class channel_walk {
 public:
  /// `taps`: the channel's, the oldest row's first.
  __device__ channel_walk(const recurrent_pass& pass, const kept_memory& kept, const float* taps,
                          std::uint32_t tap_count, std::uint32_t channel, std::uint32_t channels)
      : pass_(pass), kept_(kept), back_(tap_count - 1), channel_(channel), channels_(channels) {
#pragma unroll
    for (std::uint32_t j = 0; j < taps_max; ++j) {
      const std::uint32_t back = taps_max - 1 - j;
      taps_[j] = back <= back_ ? taps[back_ - back] : 0.0F;
    }
  }

  /// The sum at the column, from the oldest row on; `in` gives a row of the step. Keeps and copies inputs.
  template <class In>
  __device__ float at(std::uint32_t column, const step_token& step, const In& in) {
    if (step.slot != slot_) {
      slot_ = step.slot;
      look_back(column, step, in);
    }
    const float x = in(column);
    float sum = 0.0F;
#pragma unroll
    for (std::uint32_t j = 0; j + 1 < taps_max; ++j) {
      if (taps_max - 1 - j <= back_) sum = __fmaf_rn(taps_[j], rows_[j], sum);
    }
    sum = __fmaf_rn(taps_[taps_max - 1], x, sum);
#pragma unroll
    for (std::uint32_t j = 0; j + 2 < taps_max; ++j) rows_[j] = rows_[j + 1];
    rows_[taps_max - 2] = x;
    if (pass_.short_runs) *kept_row(step.slot, step.position) = x;
    copy_wanted(column, step);
    return sum;
  }

 private:
  __device__ float* kept_row(std::int32_t slot, std::int32_t position) const {
    return kept_.slots + static_cast<std::uint64_t>(slot) * kept_.slot_stride + kept_.inputs +
           static_cast<std::uint64_t>(static_cast<std::uint32_t>(position) % kept_.rows) * channels_ +
           channel_;
  }
  /// Rows before the first column that this block has of a sequence: the step's own, kept ones, or 0.
  template <class In>
  __device__ void look_back(std::uint32_t column, const step_token& step, const In& in) {
#pragma unroll
    for (std::uint32_t j = 0; j + 1 < taps_max; ++j) {
      const std::uint32_t back = taps_max - 1 - j;
      rows_[j] = 0.0F;
      if (back > back_ || static_cast<std::uint32_t>(step.position) < back) continue;
      const bool in_step = column >= back && pass_.steps[column - back].slot == step.slot;
      rows_[j] = in_step ? in(column - back) : *kept_row(step.slot, step.position - static_cast<int>(back));
    }
  }
  /// To a page: the rows before a boundary that the column is the last one of.
  __device__ void copy_wanted(std::uint32_t column, const step_token& step) const {
    const wanted_state wanted = pass_.wanted[column];
    if (wanted.position == 0 || wanted.position != step.position + 1) return;
    float* const to = kept_.pages + static_cast<std::uint64_t>(wanted.page) * kept_.page_stride +
                      kept_.state_values + channel_;
#pragma unroll
    for (std::uint32_t j = 0; j + 1 < taps_max; ++j) {
      const std::uint32_t back = taps_max - 1 - j;
      if (back <= back_) to[static_cast<std::uint64_t>(back_ - back) * channels_] = rows_[j];
    }
  }

  const recurrent_pass& pass_;
  const kept_memory& kept_;
  const std::uint32_t back_;  ///< rows before the column's own
  const std::uint32_t channel_, channels_;
  std::int32_t slot_ = -1;
  float taps_[taps_max];
  float rows_[taps_max - 1];  ///< the last one is that before the column
};

__device__ float softplus(float x) {
  return __fadd_rn(fmaxf(x, 0.0F), log1pf(expf(-fabsf(x))));
}
__device__ float sigmoid(float x) {
  return __fdiv_rn(1.0F, __fadd_rn(1.0F, expf(-x)));
}

/// The blocks of a tile of columns, by blockIdx.y: a key head's queries and keys, then parts of the values,
/// then all gates.
class mix_block {
 public:
  __device__ mix_block(const prepare_mix_args& a, float* staged)
      : a_(a),
        staged_(staged),
        first_(blockIdx.x * tile_columns),
        count_(min(tile_columns, a.pass.columns - first_)) {}

  __device__ void run() const {
    if (blockIdx.y < a_.key_heads) return key_head(blockIdx.y);
    const std::uint32_t part = blockIdx.y - a_.key_heads;
    const std::uint32_t parts = (a_.value_heads * a_.value_length + conv_threads - 1) / conv_threads;
    if (part < parts) return values(part * conv_threads + threadIdx.x);
    gates();
  }

 private:
  __device__ float* row(std::uint32_t column) const {
    return a_.mixed + static_cast<std::uint64_t>(column) * a_.stride;
  }
  /// Of a channel, all columns of the tile: `give(index in the tile, value)`.
  template <class Give>
  __device__ void convolve(std::uint32_t channel, const Give& give) const {
    channel_walk walk(a_.pass, a_.kept, a_.taps + static_cast<std::uint64_t>(channel) * a_.tap_count,
                      a_.tap_count, channel, a_.channels);
    const float bias = a_.conv_bias == nullptr ? 0.0F : a_.conv_bias[channel];
    const auto in = [&](std::uint32_t column) { return row(column)[a_.in + channel]; };
    for (std::uint32_t i = 0; i < count_; ++i) {
      const float sum = __fadd_rn(walk.at(first_ + i, a_.pass.steps[first_ + i], in), bias);
      give(i, __fmul_rn(sum, sigmoid(sum)));
    }
  }
  __device__ void values(std::uint32_t i) const {
    if (i >= a_.value_heads * a_.value_length) return;
    const std::uint32_t channel = a_.values + i;
    convolve(channel,
             [&](std::uint32_t column, float v) { row(first_ + column)[a_.convolved + channel] = v; });
  }
  __device__ std::uint32_t channel_of(std::uint32_t head, std::uint32_t i) const {
    const std::uint32_t at = head * a_.key_length;
    return i < a_.key_length ? a_.queries + at + i : a_.keys + at + i - a_.key_length;
  }
  __device__ void key_head(std::uint32_t head) const {
    const std::uint32_t both = 2 * a_.key_length;
    for (std::uint32_t i = threadIdx.x; i < both; i += conv_threads) {
      const std::uint32_t channel = channel_of(head, i);
      convolve(channel, [&](std::uint32_t column, float v) {
        if (a_.delta_net)
          staged_[column * both + i] = v;
        else
          row(first_ + column)[a_.convolved + channel] = v;
      });
    }
    if (!a_.delta_net) return;
    __syncthreads();
    for (std::uint32_t column = threadIdx.x / 32; column < count_; column += conv_threads / 32) {
      unit(column, head, 0, __fdiv_rn(1.0F, sqrtf(static_cast<float>(a_.key_length))));
      unit(column, head, a_.key_length, 1.0F);
    }
  }
  /// One warp: a vector of the staged ones, of length `by`.
  __device__ void unit(std::uint32_t column, std::uint32_t head, std::uint32_t at, float by) const {
    const float* const x = staged_ + column * 2 * a_.key_length + at;
    float squares = 0.0F;
    for (std::uint32_t i = threadIdx.x % 32; i < a_.key_length; i += 32)
      squares = __fmaf_rn(x[i], x[i], squares);
    const float scale = __fdiv_rn(1.0F, sqrtf(__fadd_rn(warp_sum(squares), a_.eps)));
    for (std::uint32_t i = threadIdx.x % 32; i < a_.key_length; i += 32)
      row(first_ + column)[a_.convolved + channel_of(head, at + i)] = __fmul_rn(__fmul_rn(x[i], scale), by);
  }
  __device__ void gates() const {
    for (std::uint32_t i = threadIdx.x; i < count_ * a_.value_heads; i += conv_threads) {
      const std::uint32_t column = first_ + i / a_.value_heads, head = i % a_.value_heads;
      const bool joint = a_.joint != 0;
      const std::uint32_t at = joint ? head / a_.joint * 2 * a_.joint + head % a_.joint : head;
      const float decay = row(column)[a_.decay + at + (joint ? a_.joint : 0)];
      const float step = softplus(__fadd_rn(decay, a_.decay_bias[head]));
      const std::uint64_t to = static_cast<std::uint64_t>(column) * a_.value_heads + head;
      const float g = __fmul_rn(a_.rate[head], step);
      a_.decays[to] = g;
      a_.factors[to] = a_.delta_net ? sigmoid(row(column)[a_.beta + at]) : step;
      if (!a_.pass.short_runs) continue;
      const step_token& s = a_.pass.steps[column];
      a_.kept.slots[static_cast<std::uint64_t>(s.slot) * a_.kept.slot_stride + a_.kept.decays +
                    static_cast<std::uint32_t>(s.position) % a_.kept.rows * a_.value_heads + head] = g;
    }
  }

  const prepare_mix_args& a_;
  float* staged_;
  const std::uint32_t first_, count_;
};

__global__ void __launch_bounds__(conv_threads)
    prepare_mix_kernel(const __grid_constant__ prepare_mix_args a) {
  __shared__ float staged[tile_columns * 2 * device_key_length_max];
  wait_for_previous_kernel();
  allow_next_kernel();
  mix_block(a, staged).run();
}

/// grid: (tiles of columns, blocks of channels).
__global__ void __launch_bounds__(conv_threads) short_conv_kernel(const __grid_constant__ short_conv_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t channel = blockIdx.y * conv_threads + threadIdx.x;
  const std::uint32_t first = blockIdx.x * tile_columns;
  const std::uint32_t count = min(tile_columns, a.pass.columns - first);
  const auto row = [&](std::uint32_t column) {
    return a.mixed + static_cast<std::uint64_t>(column) * a.stride;
  };
  if (channel >= a.channels) {
    if (channel >= padded_cols(a.channels)) return;
    for (std::uint32_t i = 0; i < count; ++i)
      a.out[static_cast<std::uint64_t>(first + i) * a.out_stride + channel] = to_half(0.0F);
    return;
  }
  channel_walk walk(a.pass, a.kept, a.taps + static_cast<std::uint64_t>(channel) * a.tap_count, a.tap_count,
                    channel, a.channels);
  const float bias = a.bias == nullptr ? 0.0F : a.bias[channel];
  const auto in = [&](std::uint32_t column) {
    return __fmul_rn(row(column)[channel], row(column)[2 * a.channels + channel]);
  };
  for (std::uint32_t i = 0; i < count; ++i) {
    const float sum = __fadd_rn(walk.at(first + i, a.pass.steps[first + i], in), bias);
    a.out[static_cast<std::uint64_t>(first + i) * a.out_stride + channel] =
        to_half(__fmul_rn(row(first + i)[a.channels + channel], sum));
  }
}

/// grid: (runs, kept rows).
__global__ void __launch_bounds__(conv_threads) keep_rows_kernel(const keep_rows_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  if (static_cast<std::int32_t>(blockIdx.x) >= *a.pass.run_count) return;
  const device_run run = a.pass.runs[blockIdx.x];
  const std::int32_t t = run.count - 1 - static_cast<std::int32_t>(blockIdx.y);
  if (t < 0) return;
  const std::uint32_t place = static_cast<std::uint32_t>(run.position + t) % a.kept.rows;
  float* const slot = a.kept.slots + static_cast<std::uint64_t>(run.slot) * a.kept.slot_stride;
  for (std::uint32_t p = 0; p < a.part_count; ++p) {
    const keep_rows_args::part& part = a.parts[p];
    const std::uint64_t from = static_cast<std::uint64_t>(run.column + t) * part.stride;
    float* const to = slot + part.to + static_cast<std::uint64_t>(place) * part.width;
    for (std::uint32_t i = threadIdx.x; i < part.width; i += conv_threads)
      to[i] = part.factor == nullptr ? part.rows[from + i]
                                     : __fmul_rn(part.rows[from + i], part.factor[from + i]);
  }
}

/// grid: (blocks of values).
__global__ void __launch_bounds__(conv_threads) copy_state_kernel(const copy_state_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  float* const slot = a.kept.slots + static_cast<std::uint64_t>(a.slot) * a.kept.slot_stride;
  float* const page = a.kept.pages + static_cast<std::uint64_t>(a.page) * a.kept.page_stride;
  const std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * conv_threads + threadIdx.x;
  const std::uint64_t values = a.kept.state_values;
  if (i >= values + static_cast<std::uint64_t>(a.back) * a.channels) return;
  float* kept = nullptr;
  if (i < values) {
    kept = slot + a.kept.states + a.position / chunk_rows % a.kept.state_count * values + i;
  } else {
    const auto row = static_cast<std::uint32_t>((i - values) / a.channels);
    const std::uint32_t place = (a.position - a.back + row) % a.kept.rows;
    kept = slot + a.kept.inputs + static_cast<std::uint64_t>(place) * a.channels + (i - values) % a.channels;
  }
  if (a.to_page)
    page[i] = *kept;
  else
    *kept = page[i];
}

bool complete(const recurrent_pass& p) {
  return p.steps != nullptr && p.wanted != nullptr && p.columns > 0 && (p.short_runs || p.runs != nullptr);
}
bool complete(const kept_memory& m) {
  return m.slots != nullptr && m.rows >= chunk_rows && m.state_count > 0;
}
bool takes_taps(std::uint32_t count) {
  return count > 0 && count <= taps_max;
}

}  // namespace

int launch_find_runs(const find_runs_args& a, CUstream_st* stream) {
  if (a.steps == nullptr || a.runs == nullptr || a.run_count == nullptr || a.columns == 0)
    return cudaErrorInvalidValue;
  return launch_dependent(find_runs_kernel, dim3(1), dim3(run_threads), 0, stream, a);
}

int launch_prepare_mix(const prepare_mix_args& a, CUstream_st* stream) {
  if (!complete(a.pass) || !complete(a.kept) || !takes_taps(a.tap_count) || a.key_heads == 0 ||
      a.key_length > device_key_length_max)
    return cudaErrorInvalidValue;
  const std::uint32_t parts = (a.value_heads * a.value_length + conv_threads - 1) / conv_threads;
  const dim3 grid((a.pass.columns + tile_columns - 1) / tile_columns, a.key_heads + parts + 1);
  return launch_dependent(prepare_mix_kernel, grid, dim3(conv_threads), 0, stream, a);
}

int launch_short_conv(const short_conv_args& a, CUstream_st* stream) {
  if (!complete(a.pass) || !complete(a.kept) || !takes_taps(a.tap_count) ||
      a.out_stride < padded_cols(a.channels))
    return cudaErrorInvalidValue;
  const dim3 grid((a.pass.columns + tile_columns - 1) / tile_columns,
                  (padded_cols(a.channels) + conv_threads - 1) / conv_threads);
  return launch_dependent(short_conv_kernel, grid, dim3(conv_threads), 0, stream, a);
}

int launch_keep_rows(const keep_rows_args& a, CUstream_st* stream) {
  if (!complete(a.pass) || !complete(a.kept) || a.pass.runs_max == 0 || a.part_count == 0 || a.part_count > 2)
    return cudaErrorInvalidValue;
  return launch_dependent(keep_rows_kernel, dim3(a.pass.runs_max, a.kept.rows), dim3(conv_threads), 0, stream,
                          a);
}

int launch_copy_state(const copy_state_args& a, CUstream_st* stream) {
  if (!complete(a.kept) || a.kept.pages == nullptr || a.position % chunk_rows != 0 || a.position < a.back)
    return cudaErrorInvalidValue;
  const std::uint64_t values = a.kept.state_values + static_cast<std::uint64_t>(a.back) * a.channels;
  const auto blocks = static_cast<std::uint32_t>((values + conv_threads - 1) / conv_threads);
  return launch_dependent(copy_state_kernel, dim3(blocks), dim3(conv_threads), 0, stream, a);
}

}  // namespace orcd::kernels
