// One inference of the C API: where the scheduler's events go and the text that a caller fetches from them.
// offer() is called on the GPU thread, next() on one thread at a time of the caller's; the lock between them
// is held for the copy of a few numbers only. Source: M0-W-1052, M0-W-1311.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/schedule/job.hpp"
#include "engine/served_model.hpp"
#include "engine/text/token_stream.hpp"

namespace orcd::gpu {

class inference final : public engine::event_sink {
 public:
  /// Room for all `max_tokens` is made here, so that offer() never allocates. next() gives up at `give_up`,
  /// whatever became of the job. `model` is kept for its tokenizer.
  inference(std::string job_id, std::shared_ptr<const engine::served_model> model, std::uint32_t max_tokens,
            engine::steady_time give_up);

  void offer(const engine::job_event& event) noexcept override;

  struct piece {
    std::string text;         ///< whole characters, at least one
    std::uint32_t index = 0;  ///< of the token that completed it
  };
  /// Waits for text and gives at most `bytes_max` (at least 4) of it; nothing at the end. After an error
  /// every call has the same one.
  [[nodiscard]] engine::result<std::optional<piece>> next(std::size_t bytes_max);

  [[nodiscard]] const std::string& job_id() const noexcept { return job_id_; }

 private:
  /// The next token, or nothing when the job is over.
  [[nodiscard]] engine::result<std::optional<engine::token_id>> wait_for_token();
  [[nodiscard]] piece take(std::size_t bytes_max);

  const std::string job_id_;
  const std::shared_ptr<const engine::served_model> model_;
  const engine::steady_time give_up_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<engine::token_id> tokens_;  ///< with room for all of them
  bool over_ = false;
  std::optional<engine::error> failure_;  ///< why the job was ended

  // The caller's side.
  engine::token_stream stream_;
  std::size_t read_ = 0;  ///< tokens taken
  std::string pending_;   ///< text not yet given away
  std::uint32_t index_ = 0;
  bool finished_ = false;
};

}  // namespace orcd::gpu
