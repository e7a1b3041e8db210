#include "net/execution.hpp"

#include <algorithm>
#include <utility>

#include "net/execute_output.hpp"

namespace orcd::net {
namespace {

using engine::cancel_reason;
using engine::errc;
using engine::error;
using engine::steady_time;

/// What a client is told when its job did not confirm a cancel in time.
error unconfirmed(cancel_reason reason) {
  switch (reason) {
    case cancel_reason::timeout: return {errc::inference_timeout, "the job ran into its time limit"};
    case cancel_reason::shutdown: return {errc::draining, "the worker is shutting down"};
    default: return {errc::cancelled, "the job was cancelled"};
  }
}

}  // namespace

execution::execution(execution_config config, engine::token_stream text)
    : execution(config, std::move(text), make_execute_output(config)) {}

execution::execution(execution_config config, engine::token_stream text, std::unique_ptr<job_output> form)
    : config_(std::move(config)),
      text_(std::move(text)),
      form_(std::move(form)),
      last_output_(config_.received_at) {
  stats_.tokens_in = config_.tokens_in;
}

void execution::started(double queue_ms, std::chrono::system_clock::time_point wall) {
  started_ = true;
  stats_.queue_ms = queue_ms;
  if (stream_over_) return;
  form_->started(output_, queue_ms, wall);
}

void execution::token(engine::token_id id, std::span<const engine::token_logprob> logprobs) {
  // Tokens that were sampled before the cancel of a stop string took effect are no part of the output.
  if (stopped_ || stream_over_) return;
  ++tokens_;
  auto piece = text_.push(id);
  // After the last token nothing can complete what is held back: it goes with that token.
  if (tokens_ == config_.max_tokens && !piece.stopped) piece.text += text_.finish();
  bool over = piece.stopped;
  if (!gone_) {
    const std::uint32_t index = tokens_ - 1;
    over = form_->token(output_, {id, index, piece.text, piece.stopped, logprobs}) || over;
    if (!piece.text.empty()) next_index_ = index + 1;
  }
  if (!over) return;
  stopped_ = true;
  if (!cancel_) cancel_ = cancel_reason::stop_string;
}

void execution::fail(const error& failure) {
  failure_ = failure;
  if (failure.code == errc::inference_timeout) failure_->permanent = config_.deadline_is_final;
  if (stream_over_) return;
  form_->failed(failure_frame_, *failure_);
  stream_over_ = true;
}

void execution::ended(const terminal_event& event, steady_time now) {
  job_over_ = true;
  if (cancel_ && *cancel_ != cancel_reason::stop_string) cancel_time_ = now - cancelled_at_;
  stats_ = std::visit([](const auto& e) { return e.stats; }, event);
  if (stopped_) stats_.tokens_out = tokens_;
  const auto* failed = std::get_if<engine::error_event>(&event);
  if (failed != nullptr) return fail(failed->failure);
  finished_ = stopped_ ? engine::finish_reason::stop : std::get<engine::end_event>(event).reason;
  if (stream_over_) return;
  // The last token's own event, if it had one, is gone: what the end-of-generation token sets free takes
  // the index after it, so that no two events have the same.
  const std::string tail = !stopped_ && tokens_ > 0 ? text_.finish() : std::string();
  if (!tail.empty()) form_->tail(output_, tail, std::max(tokens_ - 1, next_index_));
  if (const auto* end = std::get_if<engine::end_event>(&event)) form_->pooled(end->pooled);
  form_->ended(output_, *finished_, stats_);
  stream_over_ = true;
}

void execution::client_gone(steady_time now) {
  // A client that closes on reading the last event has missed nothing.
  if (job_over_) return;
  gone_ = true;
  output_.clear();
  failure_frame_.clear();
  cancel(cancel_reason::disconnected, now);
}

void execution::cancel(cancel_reason reason, steady_time now) {
  // The first reason stands, but a normal end by stop string gives way to nothing.
  if (cancel_ || job_over_) return;
  cancel_ = reason;
  cancelled_at_ = now;
}

void execution::tick(steady_time now) {
  if (config_.deadline && now >= *config_.deadline) cancel(cancel_reason::timeout, now);
  if (cancel_ && *cancel_ != cancel_reason::stop_string && !stream_over_ &&
      now - cancelled_at_ >= config_.cancel_confirm) {
    fail(unconfirmed(*cancel_));
  }
  if (!stream_over_ && !gone_ && output_.empty() && now - last_output_ >= config_.keep_alive) {
    form_->keep_alive(output_);
  }
}

std::optional<cancel_reason> execution::take_cancel() noexcept {
  if (!cancel_ || job_over_ || std::exchange(cancel_taken_, true)) return std::nullopt;
  return cancel_;
}

std::string execution::take_output(steady_time now, bool tells_failure) {
  std::string out = std::exchange(output_, {});
  const std::string failure = std::exchange(failure_frame_, {});
  if (tells_failure) out += failure;
  if (!out.empty()) last_output_ = now;
  return out;
}

steady_time execution::next_tick() const noexcept {
  if (stream_over_) return last_output_ + std::chrono::hours(1);
  steady_time next = last_output_ + (gone_ ? std::chrono::hours(1) : config_.keep_alive);
  if (config_.deadline && !cancel_) next = std::min(next, *config_.deadline);
  if (cancel_ && *cancel_ != cancel_reason::stop_string)
    next = std::min(next, cancelled_at_ + config_.cancel_confirm);
  return next;
}

outcome execution::result() const noexcept {
  if (finished_) return gone_ ? outcome::disconnected : outcome::completed;
  if (cancel_ == cancel_reason::disconnected) return outcome::disconnected;
  if (failure_ && failure_->code == errc::inference_timeout) return outcome::timeout;
  if (failure_ && failure_->code == errc::cancelled) return outcome::cancelled;
  return outcome::error;
}

phase execution::where() const noexcept {
  if (tokens_ > 0) return phase::decode;
  return started_ ? phase::prefill : phase::queued;
}

}  // namespace orcd::net
