// Where the order of likelihood is cut: after a number of tokens, or where the sum of weights is reached.
// Radix selection over the cluster: a first digit that is linear in the score spreads what logits look
// like, the digits after it are bits of the order value; as soon as few candidates are left they are
// sorted. Ties by id follow from the order value. The result is exact whatever the scores.
#pragma once

#include "kernels/sample_cluster.cuh"
#include "kernels/sample_math.cuh"

namespace orcd::kernels {

/// This block's part of the scores, and the numbers that turn a score into a weight or a bucket.
struct score_slice {
  float* scores;        ///< shared memory
  std::uint32_t first;  ///< id of scores[0]
  std::uint32_t count;
  std::uint32_t segment;  ///< scores of a warp, a multiple of 32
  float best;             ///< highest score of all blocks
  float temperature;
  float scale;      ///< buckets a unit of score
  bool weightless;  ///< all of the last bucket weighs nothing, so that no cut there matters

  /// Calls visit(index, score) for every score of this thread.
  template <class Visit>
  __device__ void each(const Visit& visit) const {
    const std::uint32_t begin = threadIdx.x / 32 * segment;
    const std::uint32_t end = begin + segment < count ? begin + segment : count;
#pragma unroll 4
    for (std::uint32_t i = begin + threadIdx.x % 32; i < end; i += 32) visit(i, scores[i]);
  }
  [[nodiscard]] __device__ std::uint64_t order(std::uint32_t i) const {
    return order_of(scores[i], first + i);
  }
  [[nodiscard]] __device__ std::uint64_t weight(float score) const {
    return weight_of(score, best, temperature);
  }
  /// Never descending as scores descend; NaN (from infinities) and all that is far go to the last one.
  [[nodiscard]] __device__ std::uint32_t bucket(float score) const {
    const float place = (best - score) * scale;
    return place < static_cast<float>(bucket_count - 1) ? static_cast<std::uint32_t>(place)
                                                        : bucket_count - 1;
  }
};

/// Keeps everything.
inline constexpr std::uint64_t no_cut = ~0ULL;

/// `weighted`: sums weights until double(sum) >= share * double(total); else counts until `count`.
struct cut_request {
  bool weighted = false;
  double share = 0.0;
  std::uint64_t count = 0;
  std::uint64_t within = no_cut;   ///< order value of the last token to look at
  std::uint32_t candidates = ~0U;  ///< at most this many are within
};

/// Lists the order values of all scores of the cluster for which wanted(index, order) is true. Needs
/// `listed` to be 0.
template <class Wanted>
__device__ inline void gather(sample_cluster& cluster, const score_slice& slice, const Wanted& wanted) {
  sample_shared& first = cluster.of(0);
  slice.each([&](std::uint32_t i, float) {
    const std::uint64_t order = slice.order(i);
    if (!wanted(i, order)) return;
    const std::uint32_t place = atomicAdd(&first.listed, 1U);
    if (place < list_max) first.list[place] = order;
  });
  cluster.sync();
}

/// Bitonic, by the first block alone. Returns the number of entries, at most list_max; what follows them
/// is no_cut.
__device__ inline std::uint32_t sort_list(sample_shared& own) {
  const std::uint32_t listed = own.listed < list_max ? own.listed : list_max;
  if (threadIdx.x >= listed) own.list[threadIdx.x] = no_cut;
  __syncthreads();
  for (std::uint32_t size = 2; size < 2 * listed; size *= 2) {
    for (std::uint32_t stride = size / 2; stride > 0; stride /= 2) {
      const std::uint32_t other = threadIdx.x ^ stride;
      if (other > threadIdx.x) {
        const std::uint64_t a = own.list[threadIdx.x];
        const std::uint64_t b = own.list[other];
        if ((a > b) == ((threadIdx.x & size) == 0)) {
          own.list[threadIdx.x] = b;
          own.list[other] = a;
        }
      }
      __syncthreads();
    }
  }
  return listed;
}

class cut_search {
 public:
  __device__ cut_search(sample_cluster& cluster, const score_slice& slice, const cut_request& request)
      : cluster_(cluster), slice_(slice), request_(request) {
    if (!request.weighted) need_ = static_cast<double>(request.count);
  }

  /// The order value of the last token kept.
  __device__ std::uint64_t run() {
    if (request_.candidates <= list_max) {
      gather(cluster_, slice_, [&](std::uint32_t, std::uint64_t order) { return order <= request_.within; });
      return finish(true);
    }
    for (level_ = 0;; ++level_) {
      add_up_buckets();
      find_bucket();
      if (level_ == 0 && !request_.weighted && slice_.weightless && digit_ == bucket_count - 1) return no_cut;
      gather(cluster_, slice_, [&](std::uint32_t i, std::uint64_t order) {
        return order <= request_.within && narrowed(i, order) && digit(i, order) == digit_;
      });
      narrow();
      if (cluster_.of(0).listed <= list_max) return finish(false);
    }
  }

 private:
  // Level 0 is the linear bucket; then bits of the order value: eleven, eleven and ten of the score, the
  // rest of the id (below 2^22) in two parts.
  [[nodiscard]] __device__ static std::uint32_t shift(std::uint32_t level) {
    return level == 1 ? 53 : level == 2 ? 42 : level == 3 ? 32 : level == 4 ? 11 : 0;
  }
  [[nodiscard]] __device__ std::uint32_t digit(std::uint32_t i, std::uint64_t order) const {
    if (level_ == 0) return slice_.bucket(slice_.scores[i]);
    const std::uint32_t bits = level_ == 3 ? 0x3FFU : 0x7FFU;
    return static_cast<std::uint32_t>(order >> shift(level_)) & bits;
  }
  [[nodiscard]] __device__ bool narrowed(std::uint32_t i, std::uint64_t order) const {
    if (level_ == 0) return true;
    if (slice_.bucket(slice_.scores[i]) != bucket_) return false;
    return level_ == 1 || order >> shift(level_ - 1) == prefix_;
  }
  __device__ void narrow() {
    if (level_ == 0) {
      bucket_ = digit_;
    } else {
      const std::uint32_t width = level_ == 1 ? 11 : shift(level_ - 1) - shift(level_);
      prefix_ = (level_ == 1 ? 0 : prefix_ << width) | digit_;
    }
  }
  [[nodiscard]] __device__ bool reached(std::uint64_t sum) const { return static_cast<double>(sum) >= need_; }

  /// Sums of every bucket over this block's candidates, then of this block's share of the buckets over all.
  __device__ void add_up_buckets() {
    sample_shared& own = cluster_.own();
    for (std::uint32_t i = threadIdx.x; i < 3 * bucket_count; i += sample_threads) own.parts[0][i] = 0;
    __syncthreads();
    slice_.each([&](std::uint32_t i, float score) {
      const std::uint64_t order = slice_.order(i);
      if (order > request_.within || !narrowed(i, order)) return;
      if (!request_.weighted) {
        atomicAdd(&own.parts[0][digit(i, order)], 1U);
        return;
      }
      const std::uint64_t weight = slice_.weight(score);
      if (weight != 0) add_weight(own, digit(i, order), weight);
    });
    cluster_.sync();
    if (cluster_.rank() == 0 && threadIdx.x == 0) own.listed = 0;
    const std::uint32_t bucket = cluster_.rank() * buckets_a_block + threadIdx.x / 4;
    std::uint64_t sum = 0;
#pragma unroll
    for (std::uint32_t b = 0; b < 2; ++b) {
      const sample_shared& other = cluster_.of(threadIdx.x % 4 * 2 + b);
      sum += other.parts[0][bucket] + (static_cast<std::uint64_t>(other.parts[1][bucket]) << 16U) +
             (static_cast<std::uint64_t>(other.parts[2][bucket]) << 32U);
    }
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
    if (threadIdx.x % 4 == 0) own.totals[threadIdx.x / 4] = sum;
    sums_ = cluster_.block_sums(threadIdx.x % 4 == 0 ? sum : 0);
  }

  /// In parts, because a 64-bit sum in shared memory has no native instruction; no part overflows, as a
  /// block holds fewer than 2^16 scores.
  __device__ static void add_weight(sample_shared& own, std::uint32_t bucket, std::uint64_t weight) {
    const auto low = static_cast<std::uint32_t>(weight);
    if ((low & 0xFFFFU) != 0) atomicAdd(&own.parts[0][bucket], low & 0xFFFFU);
    if (low >> 16U != 0) atomicAdd(&own.parts[1][bucket], low >> 16U);
    if (weight >> 32U != 0) atomicAdd(&own.parts[2][bucket], static_cast<std::uint32_t>(weight >> 32U));
  }

  __device__ void find_bucket() {
    if (level_ == 0 && request_.weighted) {
      std::uint64_t total = 0;
      for (std::uint32_t b = 0; b < sample_blocks; ++b) total += sums_[b];
      need_ = request_.share * static_cast<double>(total);
    }
    std::uint32_t block = 0;
    std::uint64_t before = passed_;
    while (block + 1 < sample_blocks && !reached(before + sums_[block])) before += sums_[block++];
    if (cluster_.rank() == block && threadIdx.x < 32) find_own_bucket(block, before);
    cluster_.sync();
    digit_ = static_cast<std::uint32_t>(cluster_.own().found[0]);
    passed_ = cluster_.own().found[1];
  }

  __device__ void find_own_bucket(std::uint32_t block, std::uint64_t before) {
    constexpr std::uint32_t each = buckets_a_block / 32;
    const std::uint64_t* totals = cluster_.own().totals + threadIdx.x * each;
    std::uint64_t mine = 0;
    for (std::uint32_t i = 0; i < each; ++i) mine += totals[i];
    const std::uint64_t inclusive = before + warp_inclusive_sum(mine);
    const std::uint32_t lanes = __ballot_sync(0xFFFFFFFFU, reached(inclusive));
    const std::uint32_t lane = lanes == 0 ? 31 : __ffs(static_cast<int>(lanes)) - 1;
    if (threadIdx.x != lane) return;
    std::uint64_t passed = inclusive - mine;
    std::uint32_t i = 0;
    while (i + 1 < each && !reached(passed + totals[i])) passed += totals[i++];
    for (std::uint32_t b = 0; b < sample_blocks; ++b) {
      cluster_.of(b).found[0] = block * buckets_a_block + lane * each + i;
      cluster_.of(b).found[1] = passed;
    }
  }

  /// Sorts the list and finds the cut in it. `all`: the list is everything, so that it has the total too.
  __device__ std::uint64_t finish(bool all) {
    sample_shared& own = cluster_.own();
    if (cluster_.rank() == 0) {
      const std::uint32_t listed = sort_list(own);
      const std::uint64_t order = own.list[threadIdx.x];
      std::uint64_t mine = 0;
      if (threadIdx.x < listed) mine = request_.weighted ? slice_.weight(score_of(order)) : 1;
      std::uint64_t total = 0;
      const std::uint64_t inclusive = passed_ + block_inclusive_sum(own, mine, total);
      if (all && request_.weighted) need_ = request_.share * static_cast<double>(total);
      if (threadIdx.x < listed && reached(inclusive) && !reached(inclusive - mine)) {
        for (std::uint32_t b = 0; b < sample_blocks; ++b) cluster_.of(b).found[0] = order;
      }
      if (threadIdx.x == 0) own.listed = 0;
    }
    cluster_.sync();
    return own.found[0];
  }

  __device__ static std::uint64_t block_inclusive_sum(sample_shared& own, std::uint64_t v,
                                                      std::uint64_t& total) {
    const std::uint64_t inclusive = warp_inclusive_sum(v);
    if (threadIdx.x % 32 == 31) own.warps[0][threadIdx.x / 32] = inclusive;
    __syncthreads();
    const std::uint64_t sums = warp_inclusive_sum(own.warps[0][threadIdx.x % 32]);
    total = __shfl_sync(0xFFFFFFFFU, sums, 31);
    const std::uint32_t warp = threadIdx.x / 32;
    const std::uint64_t before = __shfl_sync(0xFFFFFFFFU, sums, warp == 0 ? 0 : warp - 1);
    return inclusive + (warp == 0 ? 0 : before);
  }

  sample_cluster& cluster_;
  const score_slice& slice_;
  cut_request request_;
  double need_ = 0.0;
  std::uint64_t passed_ = 0;  ///< measure of what is likelier than the narrowed part
  const std::uint64_t* sums_ = nullptr;
  std::uint64_t prefix_ = 0;
  std::uint32_t level_ = 0;
  std::uint32_t bucket_ = 0;
  std::uint32_t digit_ = 0;
};

}  // namespace orcd::kernels
