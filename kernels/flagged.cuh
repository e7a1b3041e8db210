// Values that blocks of one grid hand to each other without a barrier: 32 bits of data and the number of the
// step that wrote them, in one 64-bit word that is written and read as one. Who reads asks again until the
// number is there, so data arrive after a single way through L2. A later number means that the value is not
// wanted any more. Source: the low-latency protocol of NCCL.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// No block is ever this long behind another, not even under a tool that watches every access; past it the
/// kernel fails rather than hangs.
inline constexpr std::uint64_t flagged_wait_ns_max = 20'000'000'000;

__device__ __forceinline__ std::uint64_t clock_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ void store_flagged(std::uint64_t* to, std::uint32_t data, std::uint32_t flag) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to),
               "l"(static_cast<std::uint64_t>(flag) << 32U | data)
               : "memory");
}

/// Two words that lie together.
struct flagged_two {
  std::uint64_t word[2];

  __device__ __forceinline__ void load(const std::uint64_t* from) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(word[0]), "=l"(word[1])
                 : "l"(from)
                 : "memory");
  }
  [[nodiscard]] __device__ __forceinline__ bool has(std::uint32_t flag) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(word[0] >> 32U) - flag) >= 0 &&
           static_cast<std::int32_t>(static_cast<std::uint32_t>(word[1] >> 32U) - flag) >= 0;
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t data(std::uint32_t i) const {
    return static_cast<std::uint32_t>(word[i]);
  }
};

struct flagged_one {
  std::uint64_t word;

  __device__ __forceinline__ void load(const std::uint64_t* from) {
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  }
  [[nodiscard]] __device__ __forceinline__ bool has(std::uint32_t flag) const {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> 32U) - flag) >= 0;
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t data() const {
    return static_cast<std::uint32_t>(word);
  }
};

/// Loads until the words carry the flag.
template <class Words>
__device__ __forceinline__ void await(Words& words, const std::uint64_t* from, std::uint32_t flag) {
  std::uint64_t since = 0;
  for (std::uint32_t polls = 1; !words.has(flag); ++polls) {
    words.load(from);
    if (polls % 4096 != 0) continue;
    const std::uint64_t now = clock_ns();
    if (since == 0) since = now;
    if (now - since > flagged_wait_ns_max) __trap();
  }
}

/// One flagged value.
__device__ __forceinline__ std::uint32_t read_flagged(const std::uint64_t* from, std::uint32_t flag) {
  flagged_one v;
  v.load(from);
  await(v, from, flag);
  return v.data();
}

/// Thread `thread` of `Threads` calls store(i, words) for its part of `count` pairs of words. It asks for the
/// rest only when its first pair is there: all others are about to come.
template <std::uint32_t Threads, class Store>
__device__ __forceinline__ void gather_flagged(const std::uint64_t* from, std::uint32_t count,
                                               std::uint32_t flag, std::uint32_t thread, Store store) {
  constexpr std::uint32_t at_once = 4;
#pragma unroll 1
  for (std::uint32_t first = thread; first < count; first += at_once * Threads) {
    flagged_two v[at_once];
    v[0].load(from + 2 * first);
    await(v[0], from + 2 * first, flag);
#pragma unroll
    for (std::uint32_t k = 1; k < at_once; ++k) {
      if (first + k * Threads < count) v[k].load(from + 2 * (first + k * Threads));
    }
    store(first, v[0]);
#pragma unroll
    for (std::uint32_t k = 1; k < at_once; ++k) {
      const std::uint32_t i = first + k * Threads;
      if (i >= count) break;
      await(v[k], from + 2 * i, flag);
      store(i, v[k]);
    }
  }
}

}  // namespace orcd::kernels
