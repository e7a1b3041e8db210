// --verify: every scale of every block and every value of an unquantized tensor is finite, looked up in the
// mapped file by threads of its own while the backend loads from the same pages. One and the same for both
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

/// Looks at all tensors and returns. The error (model_load_failed) names the first bad number in file
/// order: tensor, expert, row, block. `threads`: 0 = one per processor that this process may use, 64 at most.
/// `stop` ends it early, then without an error. Of a file that is changed meanwhile it says nothing
/// reliable: gguf_file::check_intact() does.
[[nodiscard]] engine::result<void> check_weights(std::span<const engine::tensor_view> tensors,
                                                 unsigned threads, const std::atomic<bool>& stop);

/// The same beside the caller. The tensors outlive the object.
class weight_check {
 public:
  explicit weight_check(std::span<const engine::tensor_view> tensors, unsigned threads = 0);
  ~weight_check();  ///< stops within milliseconds
  weight_check(const weight_check&) = delete;
  weight_check& operator=(const weight_check&) = delete;

  /// Something bad was found: whatever waits for the end of a load need not. Any thread.
  [[nodiscard]] bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  /// Waits for the end, but not for longer than this; whether it is there.
  [[nodiscard]] bool done_within(std::chrono::milliseconds limit) const {
    return done_.wait_for(limit) == std::future_status::ready;
  }
  /// Waits for the end; once.
  [[nodiscard]] engine::result<void> finish();

 private:
  std::atomic<bool> stop_{false};
  std::atomic<bool> failed_{false};
  std::future<engine::result<void>> done_;
};

}  // namespace orcd::gpu
