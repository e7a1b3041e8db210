#include "net/event_channel.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::net {

event_channel::event_channel(asio::any_io_executor executor, std::shared_ptr<signal> wake,
                             std::uint32_t tokens_max, std::uint32_t logprobs_per_token)
    : executor_(std::move(executor)),
      signal_(std::move(wake)),
      capacity_(tokens_max),
      tokens_(std::make_unique<token[]>(tokens_max)),
      logprobs_per_token_(logprobs_per_token),
      logprobs_(std::make_unique<engine::token_logprob[]>(std::size_t{tokens_max} * logprobs_per_token)) {}

std::span<const engine::token_logprob> event_channel::keep_logprobs(const engine::token_event& event,
                                                                    std::uint32_t place) noexcept {
  if (event.logprobs == nullptr || logprobs_per_token_ == 0) return {};
  const auto all = std::span(logprobs_.get() + std::size_t{place} * logprobs_per_token_, logprobs_per_token_);
  const auto listed = std::min(event.logprobs->listed, logprobs_per_token_ - 1);
  all[0] = {event.token, event.logprobs->chosen};
  std::copy_n(event.logprobs->likeliest.begin(), listed, all.begin() + 1);
  return all.first(1 + listed);
}

void event_channel::offer(const engine::job_event& event) noexcept {
  ORCD_ENSURE(!has_terminal_.load(std::memory_order_relaxed));
  if (const auto* started = std::get_if<engine::started_event>(&event)) {
    started_ = *started;
    has_started_.store(true, std::memory_order_release);
  } else if (const auto* piece = std::get_if<engine::token_event>(&event)) {
    const auto n = written_.load(std::memory_order_relaxed);
    ORCD_ENSURE(n < capacity_);
    tokens_[n] = {piece->token, std::chrono::steady_clock::now(), keep_logprobs(*piece, n)};
    written_.store(n + 1, std::memory_order_release);
  } else if (const auto* end = std::get_if<engine::end_event>(&event)) {
    terminal_.emplace(*end);
    has_terminal_.store(true, std::memory_order_release);
  } else {
    terminal_.emplace(std::get<engine::error_event>(event));
    has_terminal_.store(true, std::memory_order_release);
  }
  wake();
}

// A wake-up that is still on its way covers this event too: its handler resets the flag before the
// session looks, and both are read-modify-writes, so the session then sees what was written before.
void event_channel::wake() {
  if (waking_.exchange(true, std::memory_order_acq_rel)) return;
  asio::post(executor_, [self = shared_from_this()] {
    self->waking_.exchange(false, std::memory_order_acq_rel);
    self->signal_->raise();
  });
}

std::optional<engine::started_event> event_channel::read_started() {
  if (started_read_ || !has_started_.load(std::memory_order_acquire)) return std::nullopt;
  started_read_ = true;
  return started_;
}

std::optional<event_channel::token> event_channel::read_token() {
  if (read_ == written_.load(std::memory_order_acquire)) return std::nullopt;
  return tokens_[read_++];
}

std::optional<terminal_event> event_channel::read_terminal() {
  if (terminal_read_ || !has_terminal_.load(std::memory_order_acquire)) return std::nullopt;
  if (read_ != written_.load(std::memory_order_acquire)) return std::nullopt;
  terminal_read_ = true;
  return terminal_;
}

}  // namespace orcd::net
