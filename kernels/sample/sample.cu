// The sampler's kernel: one cluster of eight blocks a column.
#include <cuda_runtime.h>

#include "kernels/device/device_math.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/sample/sample.hpp"
#include "kernels/sample/sample_scores.cuh"
#include "kernels/sample/sample_select.cuh"
#include "kernels/sample/sample_short_list.cuh"

namespace orcd::kernels {
namespace {

constexpr std::uint64_t weight_one = 1ULL << 40U;

/// One thread: writes a column's result for the host, and the slot's state for the next step.
__device__ void answer(const sample_args& a, std::uint32_t column, const sample_column& asked,
                       std::int32_t token) {
  sample_result& out = a.results[asked.request.result];
  out.token = token;
  out.active = static_cast<std::uint32_t>(asked.active);
  if (asked.active != 0 && a.slots != nullptr) {
    slot_state& slot = a.slots[asked.slot];
    const bool is_end = token >= 0 && asked.request.stop_at_end != 0 && a.ends != nullptr &&
                        (a.ends[token / 32] >> token % 32 & 1U) != 0;
    slot.next = token;
    slot.ended = token < 0 || is_end || asked.request.remaining <= 1 ? 1 : 0;
  }
  if (a.keys != nullptr) a.keys[column] = 0;
  __threadfence_system();
  *const_cast<volatile std::uint32_t*>(&out.ticket) = *a.ticket;
}

class column_sampler : private column_scores {
 public:
  using column_scores::column_scores;

  /// The chosen token; valid in the first block.
  __device__ std::int32_t run(const sample_column& asked) {
    load(asked);
    if (request().logprobs != 0) measure_raw();
    if (args_.banned != nullptr || is_masked()) ban();
    if (request().biases != 0 && args_.biases != nullptr) add_biases();
    if (request().window != 0 && args_.history != nullptr) penalise();
    const std::uint64_t best = most_likely();
    std::int32_t token = -1;
    if (best != no_cut) {
      token = request().temperature == 0.0F ? static_cast<std::int32_t>(static_cast<std::uint32_t>(best))
                                            : draw(score_of(best));
    }
    if (cluster_.rank() == 0 && threadIdx.x == 0) {
      sample_result& out = result();
      out.total = raw_total_;
      out.gap = raw_total_ != 0 && token >= 0 ? raw_gap(logits_[token]) : 0.0F;
      out.listed = listed_;
    }
    return token;
  }

 private:
  [[nodiscard]] __device__ sample_result& result() const { return args_.results[request().result]; }

  /// Log probabilities are of the raw logits, before anything is banned or penalised.
  __device__ void measure_raw() {
    const std::uint64_t best = most_likely();
    if (best == no_cut) return;
    raw_best_ = score_of(best);
    slice_.weights.set(raw_best_, 1.0F);
    const std::uint32_t count = min(request().logprobs - 1, args_.vocab);
    const std::uint32_t threshold = count > 0 ? list_threshold(own_, count) : 0;
    sample_shared& first = cluster_.of(0);
    std::uint64_t mine = 0;
    slice_.each([&](std::uint32_t i, float score) {
      if (raw_best_ == INFINITY) {
        mine += score == INFINITY ? weight_one : 0;
      } else {
        mine += slice_.weight(score);
      }
      if (count > 0) offer(first, i, threshold);
    });
    raw_total_ = cluster_.sum(mine);
    if (count > 0) list_most_likely(count);
  }

  __device__ void offer(sample_shared& first, std::uint32_t i, std::uint32_t threshold) {
    const std::uint64_t order = slice_.order(i);
    if (order >> 32U <= threshold && slice_.scores[i] > -INFINITY) add_to_list(first, order);
  }

  /// Lists the most likely tokens: from the candidates, or by a search if there were too many of those.
  __device__ void list_most_likely(std::uint32_t count) {
    if (cluster_.of(0).listed > list_max) {
      set_range(INFINITY);
      cut_request request;
      request.count = count;
      const std::uint64_t cut = cut_search(cluster_, slice_, request).run();
      gather(cluster_, slice_, [&](std::uint32_t i, std::uint64_t order) {
        return order <= cut && slice_.scores[i] > -INFINITY;
      });
    }
    if (cluster_.rank() == 0) {
      listed_ = min(sort_list(own_), count);
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

  /// Scores more than `span` below the best are not distinguished by the search.
  __device__ void set_range(float span) {
    std::uint64_t lowest = 0;
    slice_.each([&](std::uint32_t i, float score) {
      if (score > -INFINITY) lowest = max(lowest, slice_.order(i));
    });
    const float width = slice_.weights.best - score_of(cluster_.greatest(lowest));
    slice_.weightless = span < width;
    // Finite, so that the best itself is in the first bucket.
    slice_.scale =
        fminf(static_cast<float>(bucket_count - 1) / (slice_.weightless ? span : width), 0x1.FFFFFEp127F);
  }

  __device__ std::int32_t draw(float best) {
    if (best == INFINITY) {
      best = 0.0F;
      slice_.each(
          [&](std::uint32_t i, float score) { slice_.scores[i] = score == INFINITY ? 0.0F : -INFINITY; });
    } else {
      slice_.weights.set(best, request().temperature);
      if (std::int32_t token = -1; draw_from_few(token)) return token;
    }
    slice_.weights.set(best, request().temperature);
    cut_request cut;
    const bool by_count = request().top_k != 0 && request().top_k < args_.vocab;
    if (by_count || request().top_p < 1.0F) set_range(28.5F * request().temperature);
    if (by_count) {
      cut.count = request().top_k;
      cut.within = cut_search(cluster_, slice_, cut).run();
      if (cut.within != no_cut) cut.candidates = request().top_k;
    }
    if (request().top_p < 1.0F) {
      cut.weighted = true;
      cut.share = static_cast<double>(request().top_p);
      cut.within = cut_search(cluster_, slice_, cut).run();
    }
    return draw_from_all(cut.within, least_weight());
  }

  [[nodiscard]] __device__ std::uint64_t least_weight() const {
    const double least = ceil(static_cast<double>(request().min_p) * static_cast<double>(weight_one));
    return max(1ULL, static_cast<unsigned long long>(least));
  }
  [[nodiscard]] __device__ std::uint64_t draw_steps() const {
    return static_cast<std::uint64_t>(request().draw_high) << 32U | request().draw_low;
  }

  /// Draws in the first block from a short list. False if the filters are off or keep more than that.
  __device__ bool draw_from_few(std::int32_t& token) {
    const std::uint32_t top_k = request().top_k;
    const bool by_count = top_k != 0 && top_k <= short_list_max;
    if (!by_count && (top_k != 0 || request().top_p >= 1.0F)) return false;
    const std::uint32_t threshold = list_threshold(own_, by_count ? top_k : short_list_top_p);
    sample_shared& first = cluster_.of(0);
    std::uint64_t mine = 0;
    slice_.each([&](std::uint32_t i, float score) {
      if (!by_count) mine += slice_.weight(score);
      offer(first, i, threshold);
    });
    list_filter filter;
    if (by_count) {
      cluster_.sync();
    } else {
      filter.total = cluster_.sum(mine);
    }
    if (first.listed > list_max) return false;
    if (cluster_.rank() == 0) {
      filter.listed = sort_list(own_);
      if (by_count) filter.listed = min(filter.listed, top_k);
      filter.top_p = request().top_p;
      filter.least = least_weight();
      filter.draw = draw_steps();
      const bool enough = filter_list(own_, slice_, filter);
      if (threadIdx.x < sample_blocks) cluster_.of(threadIdx.x).found[0] = enough ? 1 : 0;
    }
    cluster_.sync();
    if (own_.found[0] == 0) return false;
    if (cluster_.rank() == 0) token = draw_from_list(own_, filter);
    return true;
  }

  [[nodiscard]] __device__ std::uint64_t kept_weight(std::uint32_t i, std::uint64_t cut,
                                                     std::uint64_t least) const {
    if (slice_.order(i) > cut) return 0;
    const std::uint64_t weight = slice_.weight(slice_.scores[i]);
    return weight < least ? 0 : weight;
  }

  /// The first token by id at which the sum of the kept weights exceeds the target: finds the block, then the
  /// warp's segment, then the row of 32, then the token.
  __device__ std::int32_t draw_from_all(std::uint64_t cut, std::uint64_t least) {
    std::uint64_t mine = 0;
    slice_.each([&](std::uint32_t i, float) { mine += kept_weight(i, cut, least); });
    const std::uint64_t* sums = cluster_.block_sums(mine);
    std::uint64_t total = 0;
    for (std::uint32_t b = 0; b < sample_blocks; ++b) total += sums[b];
    std::uint64_t left = target_of(draw_steps(), total);
    std::uint32_t block = 0;
    while (block + 1 < sample_blocks && sums[block] <= left) left -= sums[block++];
    if (cluster_.rank() == block) pick(cut, least, left);
    cluster_.sync();
    return own_.chosen;
  }

  __device__ void pick(std::uint64_t cut, std::uint64_t least, std::uint64_t left) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t warp = first_above(own_.warps[lane], left);
    const std::uint32_t begin = warp * slice_.segment;
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
    if (lane == 0) cluster_.of(0).chosen = static_cast<std::int32_t>(slice_.first + begin + row * 32 + at);
  }

  /// The lane at which the sum of `v` over the lanes exceeds `left`; subtracts from `left` what lies before
  /// it.
  __device__ static std::uint32_t first_above(std::uint64_t v, std::uint64_t& left) {
    const std::uint64_t inclusive = warp_inclusive_sum(v);
    const std::uint32_t lanes = __ballot_sync(0xFFFFFFFFU, inclusive > left);
    const std::uint32_t lane = lanes == 0 ? 31 : __ffs(static_cast<int>(lanes)) - 1;
    left -= __shfl_sync(0xFFFFFFFFU, inclusive - v, static_cast<int>(lane));
    return lane;
  }

  float raw_best_ = 0.0F;
  std::uint64_t raw_total_ = 0;
  std::uint32_t listed_ = 0;
};

/// Whether a column's logits need not be read: its sequence has ended, or it is plain greedy and its key is
/// known.
__device__ bool is_known(const sample_args& a, const sample_column& asked) {
  return asked.active == 0 || (a.keys != nullptr && is_plain(asked.request));
}

/// One thread: the result of such a column.
__device__ void answer_known(const sample_args& a, std::uint32_t column, const sample_column& asked) {
  sample_result& out = a.results[asked.request.result];
  out.total = 0;
  out.gap = 0.0F;
  out.listed = 0;
  const unsigned long long key = asked.active != 0 ? a.keys[column] : 0;
  answer(a, column, asked, key == 0 ? -1 : static_cast<std::int32_t>(~static_cast<std::uint32_t>(key)));
}

__global__ void __cluster_dims__(sample_blocks, 1, 1) __launch_bounds__(sample_threads)
    sample_kernel(const sample_args a) {
  extern __shared__ std::uint64_t memory[];
  sample_shared& shared = *reinterpret_cast<sample_shared*>(memory);
  wait_for_previous_kernel();
  allow_next_kernel();
  const std::uint32_t column = blockIdx.x / sample_blocks;
  const sample_column& asked = a.asked[column];
  if (is_known(a, asked)) {
    if (blockIdx.x % sample_blocks == 0 && threadIdx.x == 0) answer_known(a, column, asked);
    return;
  }
  sample_cluster cluster(shared);
  const std::int32_t token =
      column_sampler(a, column, cluster, reinterpret_cast<float*>(&shared + 1)).run(asked);
  if (cluster.rank() == 0 && threadIdx.x == 0) answer(a, column, shared.asked, token);
}

/// If all columns are known: one thread each.
__global__ void __launch_bounds__(sample_columns_max) answer_kernel(const sample_args a) {
  wait_for_previous_kernel();
  allow_next_kernel();
  if (threadIdx.x < a.columns) answer_known(a, threadIdx.x, a.asked[threadIdx.x]);
}

}  // namespace

int launch_sample(const sample_args& a, CUstream_st* stream) {
  if (a.logits == nullptr || a.asked == nullptr || a.ticket == nullptr || a.results == nullptr ||
      a.vocab == 0 || a.vocab > sample_vocab_max || a.columns == 0 || a.columns > sample_columns_max ||
      (a.all_plain && a.keys == nullptr)) {
    return cudaErrorInvalidValue;
  }
  if (a.all_plain) return launch_dependent(answer_kernel, dim3(1), dim3(a.columns), 0, stream, a);
  const std::size_t bytes = sizeof(sample_shared) + segment_of(a.vocab) * sample_warps * sizeof(float);
  const cudaError_t status = cudaFuncSetAttribute(sample_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(bytes));
  if (status != cudaSuccess) return status;
  return launch_dependent(sample_kernel, dim3(a.columns * sample_blocks), dim3(sample_threads), bytes, stream,
                          a);
}

}  // namespace orcd::kernels
