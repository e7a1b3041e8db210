// Hopper's asynchronous copies into shared memory, and the mbarriers that count their bytes. Addresses in
// shared memory are 32-bit ones, from shared_address_of().
//
//  barrier_init(b, 1); barrier_init_done();            once, then synchronize with the waiting threads
//  barrier_expect(b, bytes); bulk_copy(to, from, bytes, b);   one thread, for each round
//  barrier_wait(b, round & 1);                         readers; the barrier's phase has completed
//
// Before a copy overwrites memory that threads have written or read: fence_shared_for_async().
#pragma once

#include <cstdint>

#include "kernels/device/flagged.cuh"

namespace orcd::kernels {

__device__ inline std::uint32_t shared_address_of(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// Initialises the mbarrier at `barrier` (8 bytes). Its phase completes after `arrivals` arrivals and all
/// announced bytes.
__device__ inline void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers visible to asynchronous copies. Call it before the threads that will wait
/// synchronize with this one.
__device__ inline void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives and announces `bytes` of asynchronous copies.
__device__ inline void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Announces more bytes without arriving.
__device__ inline void barrier_expect_more(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
[[nodiscard]] __device__ inline bool barrier_try_wait(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done = 0;
  asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}
/// Goes on waiting. Not inlined: waits rarely get here, and the code of the time limit would be in each.
static __device__ __noinline__ void barrier_wait_longer(std::uint32_t barrier, std::uint32_t parity) {
  std::uint64_t since = 0;
  for (std::uint32_t tries = 1; !barrier_try_wait(barrier, parity); ++tries) {
    if (tries % 4096 != 0) continue;
    const std::uint64_t now = clock_ns();
    if (since == 0) since = now;
    if (now - since > flagged_wait_ns_max) __trap();
  }
}
/// Waits until the phase of this parity has completed. A fresh barrier counts as past its phase of parity 1.
/// A wait that is longer than any can be traps, so that the kernel fails rather than hangs.
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  if (!barrier_try_wait(barrier, parity)) barrier_wait_longer(barrier, parity);
}
/// The same without a time limit, for a kernel that would spill the limit's register. A step that hangs here
/// ends with the process: the watchdog is fed only while steps end.
__device__ inline void barrier_wait_unbounded(std::uint32_t barrier, std::uint32_t parity) {
  while (!barrier_try_wait(barrier, parity)) {
  }
}

/// Copies `bytes` (a multiple of 16, both addresses too) from global to shared memory; `barrier` counts them.
__device__ inline void bulk_copy(std::uint32_t to, const void* from, std::uint32_t bytes,
                                 std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

/// Copies one float asynchronously; both addresses are multiples of 4. This thread may read it after
/// copied_floats().
__device__ inline void copy_float(std::uint32_t to, const float* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}
__device__ inline void copied_floats() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}

/// Copies 16 bytes asynchronously past L1; both addresses are multiples of 16.
__device__ inline void copy_16(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
/// Arrives at `barrier`, one of the arrivals that it waits for, when this thread's copies so far are done.
__device__ inline void arrive_when_copied(std::uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

/// Orders this thread's accesses to shared memory before later ones by tensor cores and bulk copies, which go
/// through the asynchronous proxy.
__device__ inline void fence_shared_for_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/// Synchronizes `threads` threads of the block at one of its sixteen numbered barriers; 0 is __syncthreads().
__device__ inline void named_barrier(std::uint32_t id, std::uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// This warpgroup gives registers back (shrink), or takes some that others gave back (grow). `Count` is what
/// it has then.
template <std::uint32_t Count>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <std::uint32_t Count>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

}  // namespace orcd::kernels
