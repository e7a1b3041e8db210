// Numbered pieces of work on two threads, or on one where the process has one processor.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>

#include "engine/base/error.hpp"

namespace orcd::app {

/// work(i) for each i below `count`, in any order and at most two at a time; the first error ends it. `make`
/// is called by each thread for what it works with: work(i, made).
template <class Make, class Work>
[[nodiscard]] engine::result<void> in_parallel(std::size_t count, Make make, Work work) {
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::optional<engine::error> failure;
  const auto fail = [&](engine::error e) {
    next = count;
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::move(e);
  };
  const auto run = [&] {
    try {
      auto made = make();
      for (std::size_t i = next++; i < count; i = next++) {
        if (engine::result<void> done = work(i, made); !done) return fail(done.error());
      }
    } catch (const std::bad_alloc&) {
      fail({engine::errc::model_load_failed, "memory ran out"});
    }
  };
  std::thread helper;
  if (count > 1 && std::thread::hardware_concurrency() > 1) {
    try {
      helper = std::thread(run);
    } catch (const std::system_error&) {  // the caller's own thread does it all
    }
  }
  run();
  if (helper.joinable()) helper.join();
  if (failure) return std::move(*failure);
  return {};
}

}  // namespace orcd::app
