// Carries a job's events from the GPU thread to its session: an array reserved for the job's whole token
// budget, so that the GPU thread never waits, never allocates per token and takes no lock. The session is
// woken by one posted handler per batch, not per token. Private to net/.
//
// The io_context must outlive the job_service that calls offer().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/schedule/job.hpp"
#include "net/http/signal.hpp"
#include "net/jobs/terminal_event.hpp"

namespace orcd::net {

class event_channel final : public engine::event_sink, public std::enable_shared_from_this<event_channel> {
 public:
  /// `tokens_max`: as job_request::events_max(). `logprobs_per_token`: 0, or 1 for the token itself and 1 for
  /// each of the most likely tokens that come with it at most.
  event_channel(asio::any_io_executor executor, std::shared_ptr<signal> wake, std::uint32_t tokens_max,
                std::uint32_t logprobs_per_token = 0);

  /// io thread, before the job is submitted: `handler` is called there when the terminal event has come, even
  /// if the stream reads no more events.
  void on_terminal(std::function<void()> handler) { terminal_handler_ = std::move(handler); }

  /// GPU thread. Events after the terminal one and tokens beyond the budget are programmer errors.
  void offer(const engine::job_event& event) noexcept override;

  struct token {
    engine::token_id id = -1;
    engine::steady_time at{};
    /// The token's own log probability, then those of the most likely tokens; empty unless asked for.
    std::span<const engine::token_logprob> logprobs{};
    engine::token_part part = engine::token_part::output;
    std::uint32_t rank = 0;  ///< token_logprobs::rank
  };
  /// io thread: what has arrived and was not read before, in order: started, tokens, terminal.
  [[nodiscard]] std::optional<engine::started_event> read_started();
  /// The newest progress, once started was read: older ones that were not read are left out, so that it
  /// takes no room. To be asked for after each token and before it is passed on: the progress that came
  /// before it is then there.
  [[nodiscard]] std::optional<engine::progress_event> read_progress() noexcept;
  [[nodiscard]] std::optional<token> read_token();
  /// Returns the terminal event only after the last token was read.
  [[nodiscard]] std::optional<terminal_event> read_terminal();

 private:
  void wake() noexcept;
  void woken();
  [[nodiscard]] bool post_wake() noexcept;
  void keep_terminal(const engine::job_event& event) noexcept;
  std::span<const engine::token_logprob> keep_logprobs(const engine::token_event& event) noexcept;

  asio::any_io_executor executor_;
  std::shared_ptr<signal> signal_;
  const std::uint32_t capacity_;
  std::vector<token> tokens_;  ///< never reallocated; the io thread reads only the first `written_` elements
  const token* first_token_ = nullptr;
  const std::uint32_t logprobs_per_token_;
  std::vector<engine::token_logprob> logprobs_;  ///< [capacity][per token] at most; never reallocated
  engine::started_event started_;
  std::optional<terminal_event> terminal_;

  // Each is stored with release order after the data that it announces.
  std::atomic<bool> has_started_{false};
  std::atomic<std::uint64_t> progress_{0};  ///< processed in the upper half, elapsed_ms in the lower
  std::atomic<std::uint32_t> written_{0};
  std::atomic<bool> has_terminal_{false};
  std::atomic<bool> waking_{false};

  // io thread only
  std::function<void()> terminal_handler_;  ///< until it was called
  bool started_read_ = false;
  std::uint64_t progress_read_ = 0;
  std::uint32_t read_ = 0;
  bool terminal_read_ = false;
};

}  // namespace orcd::net
