// The way of a job's events from the GPU thread to its session: an array with room for the job's whole
// token budget, so that the GPU thread never waits, never allocates per token and takes no lock. The
// session is woken by one posted handler per batch, not per token. Private to net/.
//
// The io_context must outlive the job_service that calls offer().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "engine/schedule/job.hpp"
#include "net/signal.hpp"
#include "net/terminal_event.hpp"

namespace orcd::net {

class event_channel final : public engine::event_sink, public std::enable_shared_from_this<event_channel> {
 public:
  /// `logprobs_per_token`: 0, or 1 + the most likeliest tokens that come with each.
  event_channel(asio::any_io_executor executor, std::shared_ptr<signal> wake, std::uint32_t tokens_max,
                std::uint32_t logprobs_per_token = 0);

  /// GPU thread. Events after the terminal one and tokens beyond the budget are programmer errors.
  void offer(const engine::job_event& event) noexcept override;

  struct token {
    engine::token_id id = -1;
    engine::steady_time at{};
    /// Its own, then those of the likeliest; as many as there are, and none unless asked for.
    std::span<const engine::token_logprob> logprobs{};
  };
  /// io thread: what has arrived and was not read before, in order: started, tokens, terminal.
  [[nodiscard]] std::optional<engine::started_event> read_started();
  [[nodiscard]] std::optional<token> read_token();
  /// Only after the last token was read.
  [[nodiscard]] std::optional<terminal_event> read_terminal();

 private:
  void wake();
  std::span<const engine::token_logprob> keep_logprobs(const engine::token_event& event,
                                                       std::uint32_t place) noexcept;

  asio::any_io_executor executor_;
  std::shared_ptr<signal> signal_;
  const std::uint32_t capacity_;
  std::unique_ptr<token[]> tokens_;
  const std::uint32_t logprobs_per_token_;
  std::unique_ptr<engine::token_logprob[]> logprobs_;  ///< [capacity][per token]
  engine::started_event started_;
  std::optional<terminal_event> terminal_;

  // Each flag or count publishes what was written before it.
  std::atomic<bool> has_started_{false};
  std::atomic<std::uint32_t> written_{0};
  std::atomic<bool> has_terminal_{false};
  std::atomic<bool> waking_{false};

  // io thread only
  bool started_read_ = false;
  std::uint32_t read_ = 0;
  bool terminal_read_ = false;
};

}  // namespace orcd::net
