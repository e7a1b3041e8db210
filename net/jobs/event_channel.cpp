#include "net/jobs/event_channel.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::net {

// Reserved but not written: the system gives no memory for tokens that never come, however large the budget.
event_channel::event_channel(asio::any_io_executor executor, std::shared_ptr<signal> wake,
                             std::uint32_t tokens_max, std::uint32_t logprobs_per_token)
    : executor_(std::move(executor)),
      signal_(std::move(wake)),
      capacity_(tokens_max),
      logprobs_per_token_(logprobs_per_token) {
  tokens_.reserve(tokens_max);
  first_token_ = tokens_.data();
  logprobs_.reserve(std::size_t{tokens_max} * logprobs_per_token);
}

std::span<const engine::token_logprob> event_channel::keep_logprobs(
    const engine::token_event& event) noexcept {
  if (event.logprobs == nullptr || logprobs_per_token_ == 0) return {};
  const auto listed = std::min(event.logprobs->listed, logprobs_per_token_ - 1);
  const auto begin = logprobs_.size();
  logprobs_.push_back({event.token, event.logprobs->chosen});
  const auto top = event.logprobs->top.begin();
  logprobs_.insert(logprobs_.end(), top, top + listed);
  return {logprobs_.data() + begin, 1U + listed};
}

void event_channel::offer(const engine::job_event& event) noexcept {
  ORCD_ENSURE(!has_terminal_.load(std::memory_order_relaxed));
  if (const auto* started = std::get_if<engine::started_event>(&event)) {
    started_ = *started;
    has_started_.store(true, std::memory_order_release);
  } else if (const auto* progress = std::get_if<engine::progress_event>(&event)) {
    progress_.store(std::uint64_t{progress->processed} << 32U | progress->elapsed_ms,
                    std::memory_order_release);
  } else if (const auto* piece = std::get_if<engine::token_event>(&event)) {
    const auto n = written_.load(std::memory_order_relaxed);
    ORCD_ENSURE(n < capacity_);
    const std::uint32_t rank = piece->logprobs != nullptr ? piece->logprobs->rank : 0;
    tokens_.push_back(
        {piece->token, std::chrono::steady_clock::now(), keep_logprobs(*piece), piece->part, rank});
    written_.store(n + 1, std::memory_order_release);
  } else {
    keep_terminal(event);
    has_terminal_.store(true, std::memory_order_release);
  }
  wake();
}

/// A terminal event that cannot be copied for lack of memory becomes a failure, whose message is short enough
/// to need no allocation.
void event_channel::keep_terminal(const engine::job_event& event) noexcept {
  try {
    if (const auto* end = std::get_if<engine::end_event>(&event)) {
      terminal_.emplace(*end);
    } else {
      terminal_.emplace(std::get<engine::error_event>(event));
    }
  } catch (const std::bad_alloc&) {
    terminal_.emplace(engine::error_event{engine::error(engine::errc::internal, "out of memory"), {}});
  }
}

// A wake-up that was posted and has not run yet covers this event too: its handler resets the flag before the
// session looks, and both are read-modify-writes, so that the session then sees what was written before.
void event_channel::wake() noexcept {
  if (waking_.exchange(true, std::memory_order_acq_rel)) return;
  constexpr int tries_max = 50;  // of a millisecond each: others may free memory meanwhile
  for (int i = 0; i < tries_max && !post_wake(); ++i) {
    if (i + 1 == tries_max) waking_.store(false, std::memory_order_release);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// False where there is no memory to post a handler. Then a later event may wake the session; at the latest
/// it looks again by itself at its next keep-alive comment.
bool event_channel::post_wake() noexcept {
  try {
    asio::post(executor_, [self = shared_from_this()] {
      self->waking_.exchange(false, std::memory_order_acq_rel);
      self->woken();
    });
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void event_channel::woken() {
  signal_->raise();
  if (!terminal_handler_ || !has_terminal_.load(std::memory_order_acquire)) return;
  const auto handler = std::exchange(terminal_handler_, nullptr);
  handler();
}

std::optional<engine::started_event> event_channel::read_started() {
  if (started_read_ || !has_started_.load(std::memory_order_acquire)) return std::nullopt;
  started_read_ = true;
  return started_;
}

std::optional<engine::progress_event> event_channel::read_progress() noexcept {
  if (!started_read_) return std::nullopt;  // it has come meanwhile, and its wake-up is still to come
  const auto newest = progress_.load(std::memory_order_acquire);
  if (std::exchange(progress_read_, newest) == newest) return std::nullopt;
  return engine::progress_event{static_cast<std::uint32_t>(newest >> 32U),
                                static_cast<std::uint32_t>(newest)};
}

std::optional<event_channel::token> event_channel::read_token() {
  if (read_ == written_.load(std::memory_order_acquire)) return std::nullopt;
  return first_token_[read_++];
}

std::optional<terminal_event> event_channel::read_terminal() {
  if (terminal_read_ || !has_terminal_.load(std::memory_order_acquire)) return std::nullopt;
  if (read_ != written_.load(std::memory_order_acquire)) return std::nullopt;
  terminal_read_ = true;
  return terminal_;
}

}  // namespace orcd::net
