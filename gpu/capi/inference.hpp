// One inference of the C API: the sink of the scheduler's events, and the text that a caller fetches from
// them. offer() is called on the GPU thread, next() on one thread at a time of the caller's; the lock between
// them is held only for the copy of a few numbers. Source: M0-W-1052, M0-W-1311.
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
#include "engine/served/served_model.hpp"
#include "engine/text/token_stream.hpp"

namespace orcd::gpu {

class inference final : public engine::event_sink {
 public:
  /// Allocates room for all `max_tokens`, so that offer() never allocates. next() gives up at `give_up`,
  /// whatever became of the job. `model` is kept for its tokenizer.
  inference(std::string job_id, std::shared_ptr<const engine::served_model> model, std::uint32_t max_tokens,
            engine::steady_time give_up);

  void offer(const engine::job_event& event) noexcept override;

  struct piece {
    std::string text;         ///< whole characters, at least one
    std::uint32_t index = 0;  ///< of the token that completed it
  };
  /// Waits for text and returns at most `bytes_max` (at least 4) of it; nothing at the end. After an error
  /// every call returns the same one.
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
  std::string pending_;   ///< text not yet returned
  std::uint32_t index_ = 0;
  bool finished_ = false;
};

}  // namespace orcd::gpu
