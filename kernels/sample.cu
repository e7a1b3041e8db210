#include <cuda_runtime.h>

#include <cmath>

#include "kernels/device_math.cuh"
#include "kernels/launch.cuh"
#include "kernels/sample.hpp"
#include "kernels/sample_cluster.cuh"
#include "kernels/sample_select.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint64_t weight_one = 1ULL << 40U;
constexpr std::uint32_t empty_entry = ~0U;

/// Scores of one warp of each block: all warps of all blocks have as many, but the last ones.
__host__ __device__ constexpr std::uint32_t segment_of(std::uint32_t vocab) {
  const std::uint32_t warps = sample_blocks * sample_warps;
  return ((vocab + warps - 1) / warps + 31) / 32 * 32;
}

struct score_range {
  std::uint64_t best;    ///< order value; no_cut when no score is above -infinity
  std::uint64_t lowest;  ///< of those above -infinity
};

class column_sampler {
 public:
  __device__ column_sampler(const sample_args& args, std::uint32_t column, const sample_column& asked,
                            sample_cluster& cluster, float* scores)
      : args_(args),
        asked_(asked),
        request_(asked.request),
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

  __device__ void run() {
    load();
    if (request_.logprobs != 0) measure_raw();
    if (args_.banned != nullptr) ban();
    if (request_.window != 0 && args_.history != nullptr) penalise();
    const score_range range = range_of();
    std::int32_t token = -1;
    if (range.best != no_cut) {
      token = request_.temperature == 0.0F ? static_cast<std::int32_t>(static_cast<std::uint32_t>(range.best))
                                           : draw(range);
    }
    if (cluster_.rank() == 0 && threadIdx.x == 0) answer(token);
  }

 private:
  __device__ void load() {
    const std::uint32_t begin = threadIdx.x / 32 * slice_.segment;
    const std::uint32_t end = min(begin + slice_.segment, slice_.count);
#pragma unroll 8
    for (std::uint32_t i = begin + threadIdx.x % 32; i < end; i += 32) {
      const float v = logits_[slice_.first + i];
      slice_.scores[i] = v > -INFINITY ? v : -INFINITY;
    }
    if (threadIdx.x == 0) own_.listed = 0;
    cluster_.sync();
  }

  __device__ score_range range_of() {
    std::uint64_t best = 0;
    std::uint64_t lowest = 0;
    slice_.each([&](std::uint32_t i, float score) {
      if (score == -INFINITY) return;
      const std::uint64_t order = slice_.order(i);
      best = max(best, ~order);
      lowest = max(lowest, order);
    });
    cluster_.highest(best, lowest);
    return {~best, lowest};
  }

  /// `span`: scores this far below the best are all the same to the search.
  __device__ void set_range(const score_range& range, float temperature, float span) {
    slice_.best = score_of(range.best);
    slice_.temperature = temperature;
    const float width = slice_.best - score_of(range.lowest);
    slice_.weightless = span < width;
    // Finite, so that the best itself is in the first bucket.
    slice_.scale =
        fminf(static_cast<float>(bucket_count - 1) / (slice_.weightless ? span : width), 0x1.FFFFFEp127F);
  }

  /// Log probabilities are of the logits as they are, before anything is banned or penalised.
  __device__ void measure_raw() {
    const score_range range = range_of();
    raw_best_ = range.best == no_cut ? -INFINITY : score_of(range.best);
    if (range.best == no_cut) return;
    set_range(range, 1.0F, INFINITY);
    std::uint64_t mine = 0;
    slice_.each([&](std::uint32_t, float score) {
      if (raw_best_ == INFINITY) {
        mine += score == INFINITY ? weight_one : 0;
      } else {
        mine += slice_.weight(score);
      }
    });
    raw_total_ = cluster_.sum(mine);
    if (request_.logprobs > 1) list_likeliest(min(request_.logprobs - 1, args_.vocab));
  }

  __device__ void list_likeliest(std::uint32_t count) {
    cut_request request;
    request.count = count;
    const std::uint64_t cut = count < args_.vocab ? cut_search(cluster_, slice_, request).run() : no_cut;
    gather(cluster_, slice_, [&](std::uint32_t i, std::uint64_t order) {
      return order <= cut && slice_.scores[i] > -INFINITY;
    });
    if (cluster_.rank() == 0) {
      listed_ = sort_list(own_);
      if (threadIdx.x < listed_) {
        const std::uint64_t order = own_.list[threadIdx.x];
        result().ids[threadIdx.x] = static_cast<std::int32_t>(static_cast<std::uint32_t>(order));
        result().gaps[threadIdx.x] = raw_gap(score_of(order));
      }
      __syncthreads();
      if (threadIdx.x == 0) own_.listed = 0;
    }
    cluster_.sync();
  }

  [[nodiscard]] __device__ float raw_gap(float logit) const {
    if (raw_best_ == INFINITY) return logit == INFINITY ? 0.0F : -INFINITY;
    return __fsub_rn(logit, raw_best_);
  }

  __device__ void ban() {
    for (std::uint32_t w = threadIdx.x; w * 32 < slice_.count; w += sample_threads) {
      for (std::uint32_t bits = args_.banned[slice_.first / 32 + w]; bits != 0; bits &= bits - 1) {
        const std::uint32_t i = w * 32 + __ffs(static_cast<int>(bits)) - 1;
        if (i < slice_.count) slice_.scores[i] = -INFINITY;
      }
    }
    __syncthreads();
  }

  /// Counts this block's tokens in the look-back window in a table of open addressing, then changes the
  /// score of each once.
  __device__ void penalise() {
    for (std::uint32_t i = threadIdx.x; i < window_table; i += sample_threads) own_.window[i] = empty_entry;
    __syncthreads();
    const auto last = static_cast<std::uint32_t>(asked_.position);
    const std::int32_t* tokens =
        args_.history + static_cast<std::uint64_t>(asked_.slot) * args_.history_stride;
    for (std::uint32_t i = threadIdx.x; i < min(request_.window, last + 1); i += sample_threads) {
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
    score = score > 0.0F ? __fdiv_rn(score, request_.repetition_penalty)
                         : __fmul_rn(score, request_.repetition_penalty);
    return __fsub_rn(score,
                     __fadd_rn(request_.presence_penalty, __fmul_rn(count, request_.frequency_penalty)));
  }

  __device__ std::int32_t draw(score_range range) {
    if (score_of(range.best) == INFINITY) {
      slice_.each(
          [&](std::uint32_t i, float score) { slice_.scores[i] = score == INFINITY ? 0.0F : -INFINITY; });
      range.best = range.lowest = order_of(0.0F, 0);
    }
    set_range(range, request_.temperature, 28.5F * request_.temperature);
    cut_request cut;
    if (request_.top_k != 0 && request_.top_k < args_.vocab) {
      cut.count = request_.top_k;
      cut.within = cut_search(cluster_, slice_, cut).run();
      if (cut.within != no_cut) cut.candidates = request_.top_k;
    }
    if (request_.top_p < 1.0F) {
      cut.weighted = true;
      cut.share = static_cast<double>(request_.top_p);
      cut.within = cut_search(cluster_, slice_, cut).run();
    }
    const double least = ceil(static_cast<double>(request_.min_p) * static_cast<double>(weight_one));
    return draw_kept(cut.within, max(1ULL, static_cast<unsigned long long>(least)));
  }

  [[nodiscard]] __device__ std::uint64_t kept_weight(std::uint32_t i, std::uint64_t cut,
                                                     std::uint64_t least) const {
    if (slice_.order(i) > cut) return 0;
    const std::uint64_t weight = slice_.weight(slice_.scores[i]);
    return weight < least ? 0 : weight;
  }

  /// The first token by id at which the sum of the kept weights exceeds the target: the block, the warp's
  /// segment, the row of 32, the token.
  __device__ std::int32_t draw_kept(std::uint64_t cut, std::uint64_t least) {
    std::uint64_t mine = 0;
    slice_.each([&](std::uint32_t i, float) { mine += kept_weight(i, cut, least); });
    const std::uint64_t* sums = cluster_.block_sums(mine);
    std::uint64_t total = 0;
    for (std::uint32_t b = 0; b < sample_blocks; ++b) total += sums[b];
    const std::uint64_t steps = static_cast<std::uint64_t>(request_.draw_high) << 32U | request_.draw_low;
    std::uint64_t left = target_of(steps, total);
    std::uint32_t block = 0;
    while (block + 1 < sample_blocks && sums[block] <= left) left -= sums[block++];
    if (cluster_.rank() == block) pick(cut, least, left);
    cluster_.sync();
    return own_.chosen;
  }

  __device__ void pick(std::uint64_t cut, std::uint64_t least, std::uint64_t left) {
    const std::uint32_t warp = first_above(own_.warps[0][threadIdx.x % 32], left);
    const std::uint32_t begin = warp * slice_.segment;
    const std::uint32_t lane = threadIdx.x % 32;
    for (std::uint32_t row = threadIdx.x / 32; row < 64; row += sample_warps) {
      const std::uint32_t i = begin + row * 32 + lane;
      const bool inside = row * 32 < slice_.segment && i < slice_.count;
      const std::uint64_t sum = warp_sum(inside ? kept_weight(i, cut, least) : 0);
      if (lane == 0) own_.rows[row] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= 32) return;
    const std::uint64_t half = warp_sum(own_.rows[lane]);
    std::uint32_t row = 0;
    if (left >= half) {
      left -= half;
      row = 32;
    }
    row += first_above(own_.rows[row + lane], left);
    const std::uint32_t i = begin + row * 32 + lane;
    const std::uint32_t at = first_above(i < slice_.count ? kept_weight(i, cut, least) : 0, left);
    if (lane < sample_blocks) {
      cluster_.of(lane).chosen = static_cast<std::int32_t>(slice_.first + begin + row * 32 + at);
    }
  }

  /// The lane at which the sum of `v` over the lanes exceeds `left`, which loses what lies before.
  __device__ static std::uint32_t first_above(std::uint64_t v, std::uint64_t& left) {
    const std::uint64_t inclusive = warp_inclusive_sum(v);
    const std::uint32_t lanes = __ballot_sync(0xFFFFFFFFU, inclusive > left);
    const std::uint32_t lane = lanes == 0 ? 31 : __ffs(static_cast<int>(lanes)) - 1;
    left -= __shfl_sync(0xFFFFFFFFU, inclusive - v, static_cast<int>(lane));
    return lane;
  }

  [[nodiscard]] __device__ sample_result& result() const {
    return args_.results[request_.result];
  }

  __device__ void answer(std::int32_t token) {
    sample_result& out = result();
    out.token = token;
    out.active = 1;
    out.total = raw_total_;
    out.gap = request_.logprobs != 0 && token >= 0 ? raw_gap(logits_[token]) : 0.0F;
    out.listed = listed_;
    if (args_.slots != nullptr) {
      slot_state& slot = args_.slots[asked_.slot];
      const bool is_end = token >= 0 && request_.stop_at_end != 0 && args_.ends != nullptr &&
                          (args_.ends[token / 32] >> token % 32 & 1U) != 0;
      slot.next = token;
      slot.ended = token < 0 || is_end || request_.remaining <= 1 ? 1 : 0;
    }
    publish(out, *args_.ticket);
  }

 public:
  __device__ static void publish(sample_result& out, std::uint32_t ticket) {
    __threadfence_system();
    *const_cast<volatile std::uint32_t*>(&out.ticket) = ticket;
  }

 private:
  const sample_args& args_;
  const sample_column& asked_;
  const sample_request& request_;
  sample_cluster& cluster_;
  sample_shared& own_;
  const float* logits_;
  score_slice slice_{};
  float raw_best_ = 0.0F;
  std::uint64_t raw_total_ = 0;
  std::uint32_t listed_ = 0;
};

__global__ void __cluster_dims__(sample_blocks, 1, 1) __launch_bounds__(sample_threads)
    sample_kernel(const sample_args a) {
  extern __shared__ std::uint64_t memory[];
  sample_shared& shared = *reinterpret_cast<sample_shared*>(memory);
  sample_cluster cluster(shared);
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t column = blockIdx.x / sample_blocks;
  const sample_column asked = a.asked[column];
  if (asked.active == 0) {
    if (cluster.rank() != 0 || threadIdx.x != 0) return;
    sample_result& out = a.results[asked.request.result];
    out.token = -1;
    out.active = 0;
    out.listed = 0;
    out.total = 0;
    column_sampler::publish(out, *a.ticket);
    return;
  }
  column_sampler(a, column, asked, cluster, reinterpret_cast<float*>(&shared + 1)).run();
}

}  // namespace

int launch_sample(const sample_args& a, CUstream_st* stream) {
  if (a.logits == nullptr || a.asked == nullptr || a.ticket == nullptr || a.results == nullptr ||
      a.vocab == 0 || a.vocab > sample_vocab_max || a.columns == 0 || a.columns > sample_columns_max) {
    return cudaErrorInvalidValue;
  }
  const std::size_t bytes = sizeof(sample_shared) + segment_of(a.vocab) * sample_warps * sizeof(float);
  const cudaError_t status = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  return launch_dependent(sample_kernel, dim3(a.columns * sample_blocks), dim3(sample_threads), bytes, stream,
                          a);
}

}  // namespace orcd::kernels
