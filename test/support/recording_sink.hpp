// An event sink that keeps what it was given and checks the order of a job's events: started, token*,
// then exactly one of end or error, and nothing after it (M0-W-1311). For tests on one thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/schedule/job.hpp"

namespace orcd::test {

class recording_sink final : public engine::event_sink {
 public:
  /// `produced`: tokens of the output that the job came with.
  explicit recording_sink(std::uint32_t produced = 0) : produced_(produced) {}

  void offer(const engine::job_event& event) noexcept override {
    if (ended()) fault_ = "an event after the terminal one";
    if (const auto* started = std::get_if<engine::started_event>(&event)) {
      if (started_) fault_ = "started twice";
      started_ = true;
      cached_ = started->cached;
    } else if (const auto* progress = std::get_if<engine::progress_event>(&event)) {
      if (!started_ || !tokens_.empty()) fault_ = "progress before started or after a token";
      if (!progress_.empty() && progress->processed <= progress_.back().processed) {
        fault_ = "progress that is none";
      }
      progress_.push_back(*progress);
    } else if (const auto* token = std::get_if<engine::token_event>(&event)) {
      if (!started_) fault_ = "a token before started";
      if (ending_) fault_ = "a token after the end-of-generation token";
      if (token->part == engine::token_part::prompt) return keep_prompt(*token);
      if (token->index != produced_ + tokens_.size()) fault_ = "token index out of order";
      if (token->part == engine::token_part::end) {
        ending_ = token->token;
        return;
      }
      tokens_.push_back(token->token);
      if (token->logprobs != nullptr) logprobs_.push_back(*token->logprobs);
    } else if (const auto* end = std::get_if<engine::end_event>(&event)) {
      end_ = *end;
    } else {
      error_ = std::get<engine::error_event>(event);
    }
  }

  [[nodiscard]] bool started() const noexcept { return started_; }
  [[nodiscard]] std::uint32_t cached() const noexcept { return cached_; }  ///< when it started
  [[nodiscard]] const std::vector<engine::progress_event>& progress() const noexcept { return progress_; }
  [[nodiscard]] bool ended() const noexcept { return end_ || error_; }
  [[nodiscard]] const std::vector<engine::token_id>& tokens() const noexcept { return tokens_; }
  [[nodiscard]] const std::vector<engine::token_logprobs>& logprobs() const noexcept { return logprobs_; }
  [[nodiscard]] const std::optional<engine::end_event>& end() const noexcept { return end_; }
  [[nodiscard]] const std::optional<engine::error_event>& error() const noexcept { return error_; }
  [[nodiscard]] const engine::job_stats& stats() const { return end_ ? end_->stats : error_.value().stats; }
  /// The prompt's tokens that were told, from index prompt_from() on, and what came with them.
  [[nodiscard]] const std::vector<engine::token_id>& prompt() const noexcept { return prompt_; }
  [[nodiscard]] const std::vector<engine::token_logprobs>& prompt_logprobs() const noexcept {
    return prompt_logprobs_;
  }
  [[nodiscard]] std::uint32_t prompt_from() const noexcept { return prompt_from_; }
  [[nodiscard]] std::optional<engine::token_id> ending() const noexcept { return ending_; }
  /// Empty while the order of events has been right.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 private:
  void keep_prompt(const engine::token_event& token) {
    if (prompt_.empty()) prompt_from_ = token.index;
    if (token.index != prompt_from_ + prompt_.size()) fault_ = "prompt index out of order";
    if (!tokens_.empty()) fault_ = "a token of the prompt after one of the output";
    if (token.logprobs == nullptr) fault_ = "a token of the prompt without log probability";
    prompt_.push_back(token.token);
    if (token.logprobs != nullptr) prompt_logprobs_.push_back(*token.logprobs);
  }

  std::uint32_t produced_;
  bool started_ = false;
  std::uint32_t cached_ = 0;
  std::vector<engine::progress_event> progress_;
  std::vector<engine::token_id> prompt_;
  std::vector<engine::token_logprobs> prompt_logprobs_;
  std::uint32_t prompt_from_ = 0;
  std::optional<engine::token_id> ending_;
  std::vector<engine::token_id> tokens_;
  std::vector<engine::token_logprobs> logprobs_;  ///< of the tokens that came with some
  std::optional<engine::end_event> end_;
  std::optional<engine::error_event> error_;
  std::string fault_;
};

}  // namespace orcd::test
