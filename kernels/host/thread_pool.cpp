#include "kernels/host/thread_pool.hpp"

#include <sched.h>

#include <algorithm>

namespace orcd::kernels::host {
namespace {

constexpr unsigned threads_max = 64;
constexpr int spins_max = 2000;  // about 50 us

unsigned available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return std::max(1U, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::max(1, CPU_COUNT(&set)));
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

thread_pool::thread_pool(unsigned threads) {
  const unsigned wanted = std::min(threads == 0 ? available_processors() : threads, threads_max);
  workers_.reserve(wanted);
  try {
    for (unsigned i = 1; i < wanted; ++i) workers_.emplace_back([this] { work_until_stopped(); });
  } catch (...) {
    stop();  // joins those that have started
    throw;
  }
}

thread_pool::~thread_pool() {
  stop();
}

void thread_pool::stop() noexcept {
  stopping_.store(true);
  epoch_.fetch_add(2);  // a change that opens no region
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void thread_pool::run_ranges(const region& work) {
  if (work.count == 0) return;
  if (workers_.empty() || work.count <= work.grain) return work.body(work.context, 0, work.count);
  region_ = work;
  next_.store(0, std::memory_order_relaxed);
  epoch_.fetch_add(1);
  epoch_.notify_all();
  take_ranges(region_);
  epoch_.fetch_add(1);
  int spins = 0;
  for (std::uint32_t inside = inside_.load(); inside != 0; inside = inside_.load()) {
    if (++spins < spins_max) {
      relax();
    } else {
      inside_.wait(inside);
    }
  }
}

void thread_pool::take_ranges(const region& work) {
  for (;;) {
    const std::uint64_t begin = next_.fetch_add(work.grain, std::memory_order_relaxed);
    if (begin >= work.count) return;
    const std::uint64_t end = std::min<std::uint64_t>(begin + work.grain, work.count);
    work.body(work.context, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end));
  }
}

std::uint32_t thread_pool::wait_for_change(std::uint32_t epoch) {
  for (int spins = 0; spins < spins_max; ++spins) {
    const std::uint32_t now = epoch_.load();
    if (now != epoch) return now;
    relax();
  }
  epoch_.wait(epoch);
  return epoch_.load();
}

void thread_pool::work_until_stopped() {
  std::uint32_t seen = 0;
  while (!stopping_.load()) {
    const std::uint32_t now = wait_for_change(seen);
    seen = now;
    if (now % 2 == 0) continue;
    inside_.fetch_add(1);
    if (epoch_.load() == now) take_ranges(region_);
    inside_.fetch_sub(1);
    inside_.notify_one();
  }
}

}  // namespace orcd::kernels::host
