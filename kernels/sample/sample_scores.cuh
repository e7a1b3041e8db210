// One column's scores: the logits in shared memory, after bans, biases and penalties. As
// engine/sampling/sampling.cpp defines them (copy_choosable, add_biases, apply_penalties).
#pragma once

#include <cmath>

#include "kernels/sample/sample_slice.cuh"

namespace orcd::kernels {

/// Scores of one warp: the same number for all warps of all blocks, except the last ones.
__host__ __device__ constexpr std::uint32_t segment_of(std::uint32_t vocab) {
  constexpr std::uint32_t warps = sample_blocks * sample_warps;
  return ((vocab + warps - 1) / warps + 31) / 32 * 32;
}

class column_scores {
 public:
  __device__ column_scores(const sample_args& args, std::uint32_t column, sample_cluster& cluster,
                           float* scores)
      : args_(args),
        cluster_(cluster),
        own_(cluster.own()),
        logits_(args.logits + static_cast<std::uint64_t>(column) * args.vocab) {
    const std::uint32_t segment = segment_of(args.vocab);
    const std::uint32_t slice = segment * sample_warps;
    slice_.scores = scores;
    slice_.first = cluster.rank() * slice;
    slice_.count = args.vocab <= slice_.first ? 0 : min(args.vocab - slice_.first, slice);
    slice_.segment = segment;
  }

 protected:
  [[nodiscard]] __device__ const sample_request& request() const { return own_.asked.request; }

  /// Loads the request and the logits. After it, this block may write to the shared memory of the others.
  __device__ void load(const sample_column& asked) {
    if (threadIdx.x == 0) {
      own_.asked = asked;
      own_.listed = 0;
    }
    cluster_.arrive();
    const std::uint32_t begin = threadIdx.x / 32 * slice_.segment;
    const std::uint32_t end = min(begin + slice_.segment, slice_.count);
#pragma unroll 8
    for (std::uint32_t i = begin + threadIdx.x % 32; i < end; i += 32) {
      const float v = logits_[slice_.first + i];
      slice_.scores[i] = v > -INFINITY ? v : -INFINITY;
    }
    cluster_.wait();
  }

  [[nodiscard]] __device__ bool is_masked() const {
    return request().masked != 0 && args_.allowed != nullptr;
  }

  /// Excludes what is banned for all columns, and what the column's mask does not allow.
  __device__ void ban() {
    __syncthreads();
    const std::uint32_t first = slice_.first / 32;
    const std::uint32_t words = (args_.vocab + 31) / 32;
    const std::uint32_t* allowed =
        is_masked() ? args_.allowed + static_cast<std::uint64_t>(request().masked - 1) * words : nullptr;
    for (std::uint32_t w = threadIdx.x; w * 32 < slice_.count; w += sample_threads) {
      std::uint32_t bits = args_.banned == nullptr ? 0 : args_.banned[first + w];
      if (allowed != nullptr) bits |= ~allowed[first + w];
      for (; bits != 0; bits &= bits - 1) {
        const std::uint32_t i = w * 32 + __ffs(static_cast<int>(bits)) - 1;
        if (i < slice_.count) slice_.scores[i] = -INFINITY;
      }
    }
    __syncthreads();
  }

  /// Each token belongs to one thread.
  __device__ void add_biases() {
    __syncthreads();
    const sample_bias* biases =
        args_.biases + static_cast<std::uint64_t>(own_.asked.slot) * sample_biases_max;
    for (std::uint32_t i = threadIdx.x; i < request().biases; i += sample_threads) {
      const std::uint32_t id = static_cast<std::uint32_t>(biases[i].token) - slice_.first;
      if (id < slice_.count) slice_.scores[id] = __fadd_rn(slice_.scores[id], biases[i].bias);
    }
    __syncthreads();
  }

  /// Counts this block's tokens of the look-back window in an open-addressing table, then changes the score
  /// of each once.
  __device__ void penalise() {
    for (std::uint32_t i = threadIdx.x; i < window_table; i += sample_threads) own_.window[i] = empty_entry;
    __syncthreads();
    const auto last = static_cast<std::uint32_t>(own_.asked.position);
    const std::int32_t* tokens =
        args_.history + static_cast<std::uint64_t>(own_.asked.slot) * args_.history_stride;
    for (std::uint32_t i = threadIdx.x; i < min(request().window, last + 1); i += sample_threads) {
      const std::uint32_t id = static_cast<std::uint32_t>(tokens[last - i]) - slice_.first;
      if (id < slice_.count) count_occurrence(id);
    }
    __syncthreads();
    for (std::uint32_t i = threadIdx.x; i < window_table; i += sample_threads) {
      if (own_.window[i] == empty_entry) continue;
      float& score = slice_.scores[own_.window[i] >> 16U];
      if (score != -INFINITY) score = penalised(score, static_cast<float>(own_.window[i] & 0xFFFFU));
    }
    __syncthreads();
  }

  /// The order value of the most likely token; no_cut if no score is above -infinity.
  __device__ std::uint64_t most_likely() {
    float best = -INFINITY;
    std::uint32_t at = 0;
    slice_.each([&](std::uint32_t i, float score) {
      if (score > best) {
        best = score;
        at = i;
      }
    });
    return cluster_.least(best == -INFINITY ? no_cut : order_of(best, slice_.first + at));
  }

  const sample_args& args_;
  sample_cluster& cluster_;
  sample_shared& own_;
  const float* logits_;
  score_slice slice_{};

 private:
  static constexpr std::uint32_t empty_entry = ~0U;

  __device__ void count_occurrence(std::uint32_t id) {
    std::uint32_t place = id * 2'654'435'761U >> 19U;
    while (true) {
      const std::uint32_t found = atomicCAS(&own_.window[place], empty_entry, id << 16U | 1U);
      if (found == empty_entry) return;
      if (found >> 16U == id) {
        atomicAdd(&own_.window[place], 1U);
        return;
      }
      place = (place + 1) % window_table;
    }
  }

  [[nodiscard]] __device__ float penalised(float score, float count) const {
    const sample_request& r = request();
    score = score > 0.0F ? __fdiv_rn(score, r.repetition_penalty) : __fmul_rn(score, r.repetition_penalty);
    return __fsub_rn(score, __fadd_rn(r.presence_penalty, __fmul_rn(count, r.frequency_penalty)));
  }
};

}  // namespace orcd::kernels
