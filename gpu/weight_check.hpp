// --verify: checks that every scale of every block and every value of an unquantized tensor is finite.
// Threads of its own read the mapped file while the backend loads from the same pages. The same for both
// backends. Source: M0-W-1210 and the corrupt tensors of M0-W-1111.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <span>

#include "engine/base/error.hpp"
#include "engine/gguf/tensor_view.hpp"

namespace orcd::gpu {

/// Checks all tensors and returns. The error (model_load_failed) names the first bad number in file order:
/// tensor, expert, row, block. `threads`: 0 = one per processor that this process may use, at most 64. `stop`
/// ends it early, then without an error. If the file changes meanwhile, the result is not reliable;
/// gguf_file::check_intact() detects that.
[[nodiscard]] engine::result<void> check_weights(std::span<const engine::tensor_view> tensors,
                                                 unsigned threads, const std::atomic<bool>& stop);

/// The same in the background. The tensors outlive the object.
class weight_check {
 public:
  explicit weight_check(std::span<const engine::tensor_view> tensors, unsigned threads = 0);
  ~weight_check();  ///< stops within milliseconds
  weight_check(const weight_check&) = delete;
  weight_check& operator=(const weight_check&) = delete;

  /// Something bad has been found, so that the end of a load need not be waited for. Any thread.
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  /// Waits for the end, up to `limit`; whether it has come.
  [[nodiscard]] bool done_within(std::chrono::milliseconds limit) const {
    return done_.wait_for(limit) == std::future_status::ready;
  }
  /// Waits for the end and returns the result; call once.
  [[nodiscard]] engine::result<void> finish();

 private:
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::future<engine::result<void>> done_;
};

}  // namespace orcd::gpu
