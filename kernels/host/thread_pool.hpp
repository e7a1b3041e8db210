// A persistent fork-join pool: one region at a time, the caller works too. Which thread takes which piece
// depends on timing; kernels make results independent of it. Idle workers spin for some tens of microseconds,
// so that the many small regions of a forward pass need no wake-up, and then sleep.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace orcd::kernels::host {

class thread_pool {
 public:
  /// `threads` counts the caller of run(); 0 = one per processor that this process may use; at most 64.
  /// Throws std::system_error when the system has no more threads.
  explicit thread_pool(unsigned threads);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  /// Calls body(begin, end) for ranges of at most `grain` items that together cover [0, count), and
  /// returns when all have returned. From one thread at a time, not from inside a body; `body` must not
  /// throw.
  template <class Body>
  void run(std::uint32_t count, std::uint32_t grain, const Body& body) {
    run_ranges({count, grain == 0 ? 1 : grain, &body,
                [](const void* context, std::uint32_t begin, std::uint32_t end) {
                  (*static_cast<const Body*>(context))(begin, end);
                }});
  }

  [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(workers_.size()) + 1; }

 private:
  struct region {
    std::uint32_t count = 0;
    std::uint32_t grain = 1;
    const void* context = nullptr;
    void (*body)(const void* context, std::uint32_t begin, std::uint32_t end) = nullptr;
  };
  void run_ranges(const region& work);
  void take_ranges(const region& work);
  void work_until_stopped();
  void stop() noexcept;
  [[nodiscard]] std::uint32_t wait_for_change(std::uint32_t epoch);

  // Odd while a region is open. A worker enters by raising inside_ and then looking at epoch_ again; the
  // caller closes by raising epoch_ and then waiting for inside_ to be 0. Both are sequentially
  // consistent, so either the worker sees the region closed or the caller sees the worker.
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<std::uint32_t> inside_{0};
  alignas(64) std::atomic<std::uint64_t> next_{0};  ///< first item not yet taken
  std::atomic<bool> stopping_{false};
  region region_;
  std::vector<std::thread> workers_;
};

}  // namespace orcd::kernels::host
