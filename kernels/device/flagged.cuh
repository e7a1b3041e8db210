// How blocks of one grid hand values to each other without a barrier. A flagged word is 64 bits: 32 bits of
// data and a flag, the number of the phase that wrote them.
//
//   63          32 31           0
//  |    flag      |    data      |     written and read by one 64-bit access, so never half of each
//
//  writer                             reader
//  store_flagged(word, data, flag) -> load; flag too old: load again; else use the data
//
// The data arrive with the flag, after one way through L2, where a separate flag would cost a fence and a
// second way. A newer flag than the awaited one also ends the wait: the reader's value is not needed any
// more. The words are never reset between phases, because flags only grow. Source: the low-latency (LL)
// protocol of NCCL.
#pragma once

#include <cstdint>

namespace orcd::kernels {

/// Longer than any block lags behind another, even under a tool that traces every access. Past it the kernel
/// traps rather than hangs.
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

/// Stores two adjacent words, 16-byte aligned, at once.
__device__ __forceinline__ void store_flagged_two(std::uint64_t* to, std::uint32_t first,
                                                  std::uint32_t second, std::uint32_t flag) {
  const std::uint64_t upper = static_cast<std::uint64_t>(flag) << 32U;
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(upper | first),
               "l"(upper | second)
               : "memory");
}

/// Negative while a word is older than this flag.
__device__ __forceinline__ std::int32_t behind(std::uint64_t word, std::uint32_t flag) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(word >> 32U) - flag);
}

/// Two adjacent words, read at once.
struct flagged_two {
  std::uint64_t word[2];

  /// Sets zeros with this flag, as if read.
  __device__ __forceinline__ void clear(std::uint32_t flag) {
    word[0] = word[1] = static_cast<std::uint64_t>(flag) << 32U;
  }
  __device__ __forceinline__ void load(const std::uint64_t* from) {
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(word[0]), "=l"(word[1])
                 : "l"(from)
                 : "memory");
  }
  [[nodiscard]] __device__ __forceinline__ std::int32_t is_behind(std::uint32_t flag) const {
    return behind(word[0], flag) | behind(word[1], flag);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t data(std::uint32_t i) const {
    return static_cast<std::uint32_t>(word[i]);
  }
};

struct flagged_one {
  std::uint64_t word;

  __device__ __forceinline__ void clear(std::uint32_t flag) {
    word = static_cast<std::uint64_t>(flag) << 32U;
  }
  __device__ __forceinline__ void load(const std::uint64_t* from) {
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
  }
  [[nodiscard]] __device__ __forceinline__ std::int32_t is_behind(std::uint32_t flag) const {
    return behind(word, flag);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t data() const {
    return static_cast<std::uint32_t>(word);
  }
};

/// Reloads words[k] from place(k) until all of them carry the flag. Lanes that enter together leave together:
/// if each left when its own words were there, the warp would stay diverged and run what follows lane by
/// lane. So no word may depend on what another lane does after this.
template <std::uint32_t Count, class Words, class Place>
__device__ __forceinline__ void await(Words (&words)[Count], std::uint32_t flag, Place place) {
  const std::uint32_t lanes = __activemask();
  std::uint64_t since = 0;
  for (std::uint32_t polls = 1;; ++polls) {
    std::int32_t any = 0;  // one test for all words instead of one each
#pragma unroll
    for (std::uint32_t k = 0; k < Count; ++k) any |= words[k].is_behind(flag);
    if (__all_sync(lanes, any >= 0)) return;
#pragma unroll
    for (std::uint32_t k = 0; k < Count; ++k) {
      if (words[k].is_behind(flag) < 0) words[k].load(place(k));
    }
    if (polls % 4096 != 0) continue;
    const std::uint64_t now = clock_ns();
    if (since == 0) since = now;
    if (now - since > flagged_wait_ns_max) __trap();
  }
}

/// Waits for one value.
__device__ __forceinline__ std::uint32_t read_flagged(const std::uint64_t* from, std::uint32_t flag) {
  flagged_one v[1];
  v[0].load(from);
  await(v, flag, [&](std::uint32_t) { return from; });
  return v[0].data();
}

/// Issues the loads of words[k] at place(k) for k < inside; the others are set as if read.
template <std::uint32_t Count, class Words, class Place>
__device__ __forceinline__ void begin_loads(Words (&words)[Count], std::uint32_t inside, std::uint32_t flag,
                                            Place place) {
#pragma unroll
  for (std::uint32_t k = 0; k < Count; ++k) words[k].clear(flag);
#pragma unroll
  for (std::uint32_t k = 0; k < Count; ++k) {
    if (k < inside) words[k].load(place(k));
  }
}

/// words[k] = those at place(k) for k < inside, zeros past them. Calls meanwhile() after the loads are
/// issued.
template <std::uint32_t Count, class Words, class Place, class Meanwhile>
__device__ __forceinline__ void gather(Words (&words)[Count], std::uint32_t inside, std::uint32_t flag,
                                       Place place, Meanwhile meanwhile) {
  begin_loads(words, inside, flag, place);
  meanwhile();
  await(words, flag, place);
}
template <std::uint32_t Count, class Words, class Place>
__device__ __forceinline__ void gather(Words (&words)[Count], std::uint32_t inside, std::uint32_t flag,
                                       Place place) {
  gather(words, inside, flag, place, [] {});
}

/// v[k] = float thread + k * Threads of `count`, 0 past the last. Calls meanwhile() after the loads are
/// issued.
template <std::uint32_t Threads, std::uint32_t Values, class Meanwhile>
__device__ __forceinline__ void gather_floats(const std::uint64_t* from, std::uint32_t count,
                                              std::uint32_t flag, std::uint32_t thread, float (&v)[Values],
                                              Meanwhile meanwhile) {
  flagged_one words[Values];
  gather(
      words, thread < count ? (count - thread + Threads - 1) / Threads : 0, flag,
      [&](std::uint32_t k) { return from + thread + k * Threads; }, meanwhile);
#pragma unroll
  for (std::uint32_t k = 0; k < Values; ++k) v[k] = __uint_as_float(words[k].data());
}
template <std::uint32_t Threads, std::uint32_t Values>
__device__ __forceinline__ void gather_floats(const std::uint64_t* from, std::uint32_t count,
                                              std::uint32_t flag, std::uint32_t thread, float (&v)[Values]) {
  gather_floats<Threads>(from, count, flag, thread, v, [] {});
}

/// Thread `thread` of `Threads` calls store(i, words) for its share of `count` pairs of words, with `AtOnce`
/// loads under way at a time; pair i is at place(i).
template <std::uint32_t Threads, std::uint32_t AtOnce, class Place, class Store>
__device__ __forceinline__ void gather_pairs(std::uint32_t count, std::uint32_t flag, std::uint32_t thread,
                                             Place place, Store store) {
#pragma unroll 1
  for (std::uint32_t first = thread; first < count; first += AtOnce * Threads) {
    flagged_two words[AtOnce];
    gather(words, min(AtOnce, (count - first + Threads - 1) / Threads), flag,
           [&](std::uint32_t k) { return place(first + k * Threads); });
#pragma unroll
    for (std::uint32_t k = 0; k < AtOnce; ++k) {
      if (first + k * Threads < count) store(first + k * Threads, words[k]);
    }
  }
}

}  // namespace orcd::kernels
