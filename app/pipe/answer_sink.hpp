// Where the scheduler's events of one answer become lines. offer() is called on the GPU thread and writes
// them at once: no other thread has to wake for a token.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "app/pipe/conversation.hpp"
#include "app/pipe/token_output.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::app {

class answer_sink final : public engine::event_sink {
 public:
  /// `wake` is an eventfd that is written to when the answer is over, and when lines wait for the reader.
  /// Room for all `tokens_max` is allocated here.
  answer_sink(answer begun, std::uint32_t tokens_max, token_output& out, int wake);

  void offer(const engine::job_event& event) noexcept override;

  /// Main thread, once the eventfd said so.
  [[nodiscard]] bool over() const noexcept { return over_; }
  /// After over().
  [[nodiscard]] const answer& written() const noexcept { return answer_; }
  [[nodiscard]] const std::optional<engine::error>& failure() const noexcept { return failure_; }

 private:
  void wake_main() const noexcept;

  answer answer_;
  token_output& out_;
  int wake_;
  std::optional<engine::error> failure_;
  std::atomic<bool> over_{false};  ///< set last: releases what is above
};

}  // namespace orcd::app
