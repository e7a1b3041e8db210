// Finds where the tokens, by descending likelihood, are cut: after a number of them, or where the sum of
// weights is reached. Radix selection over the cluster. The first digit is linear in the score, which spreads
// typical logits; the digits after it are bits of the order value. As soon as few candidates are left they
// are sorted. Ties by id follow from the order value. The result is exact for any scores.
#pragma once

#include "kernels/sample/sample_slice.cuh"

namespace orcd::kernels {

/// `weighted`: sums weights until double(sum) >= share * double(total); otherwise counts until `count`.
struct cut_request {
  bool weighted = false;
  double share = 0.0;
  std::uint64_t count = 0;
  std::uint64_t within = no_cut;   ///< order value of the last token to consider
  std::uint32_t candidates = ~0U;  ///< an upper bound of the tokens up to `within`
};

class cut_search {
 public:
  __device__ cut_search(sample_cluster& cluster, const score_slice& slice, const cut_request& request)
      : cluster_(cluster), slice_(slice), request_(request) {
    if (!request.weighted) need_ = static_cast<double>(request.count);
  }

  /// The order value of the last token that is kept.
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
  // Level 0 is the linear bucket. Then come bits of the order value: eleven, eleven and ten of the score, and
  // the id (below 2^22) in two parts.
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

  /// Sums of every bucket over this block's candidates, then of this block's share of the buckets over all
  /// blocks.
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

  /// In three 16-bit pieces, because there is no native 64-bit atomic addition in shared memory. No piece
  /// overflows: a block has fewer than 2^16 scores.
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

  /// Sorts the list and finds the cut in it. `all`: the list holds all candidates, so that their total is
  /// known, too.
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

  sample_cluster& cluster_;
  const score_slice& slice_;
  cut_request request_;
  double need_ = 0.0;
  std::uint64_t passed_ = 0;  ///< sum of what is more likely than the narrowed range
  const std::uint64_t* sums_ = nullptr;
  std::uint64_t prefix_ = 0;
  std::uint32_t level_ = 0;
  std::uint32_t bucket_ = 0;
  std::uint32_t digit_ = 0;
};

}  // namespace orcd::kernels
