#include "net/jobs/job_execution.hpp"

#include <algorithm>
#include <utility>

namespace orcd::net {

using engine::cancel_reason;
using engine::errc;
using engine::error;
using engine::steady_time;

error cancelled_without_event(cancel_reason reason) {
  switch (reason) {
    case cancel_reason::timeout: return {errc::inference_timeout, "the job ran into its time limit"};
    case cancel_reason::shutdown: return {errc::draining, "the worker is shutting down"};
    default: return {errc::cancelled, "the job was cancelled"};
  }
}

terminal_event end_of_unsubmitted(cancel_reason reason, std::uint32_t tokens_in) {
  engine::job_stats stats;
  stats.tokens_in = tokens_in;
  if (reason == cancel_reason::stop_string) return engine::end_event{engine::finish_reason::stop, stats};
  return engine::error_event{cancelled_without_event(reason), stats};
}

namespace {

/// Throws away what was appended to the output since it was made, if the client was told of it before.
class hidden_if {
 public:
  hidden_if(std::string& output, bool told) : output_(output), size_(output.size()), told_(told) {}
  ~hidden_if() {
    if (told_) output_.resize(size_);
  }
  hidden_if(const hidden_if&) = delete;
  hidden_if& operator=(const hidden_if&) = delete;

 private:
  std::string& output_;
  std::size_t size_;
  bool told_;
};

}  // namespace

// `started` has no id and comes before all events that have one.
resume_point resume_point::after_event(std::uint32_t id) noexcept {
  resume_point out;
  out.started = true;
  out.tokens = out.tail = id + (id < std::numeric_limits<std::uint32_t>::max() ? 1U : 0U);
  return out;
}

resume_point further_of(const resume_point& a, const resume_point& b) noexcept {
  resume_point out;
  out.started = a.started || b.started;
  out.processed = std::max(a.processed, b.processed);
  out.beside = std::max(a.beside, b.beside);
  out.tokens = std::max(a.tokens, b.tokens);
  out.tail = std::max(a.tail, b.tail);
  out.ended = a.ended || b.ended;
  return out;
}

job_execution::job_execution(job_execution_config config, engine::token_stream text,
                             std::unique_ptr<job_output> writer)
    : config_(std::move(config)),
      text_(std::move(text)),
      writer_(std::move(writer)),
      last_output_(config_.received_at) {
  stats_.tokens_in = config_.tokens_in;
}

void job_execution::started(double queue_ms, std::chrono::system_clock::time_point wall) {
  stats_.queue_ms = queue_ms;
  if (std::exchange(started_, true) || stream_over_) return;
  told_.started = true;
  const hidden_if hidden(output_, config_.resume.started);
  writer_->started(output_, queue_ms, wall);
}

// How a prompt is cut may differ from process to process: a client is told what is more than it knows.
void job_execution::progress(const prompt_progress& progress) {
  if (stopped_ || stream_over_ || gone_) return;
  // To restored output it comes too late: a writer may take what it keeps for the next token with it.
  if (told_.tokens > 0 || told_.beside > 0) return;
  const auto& before = config_.resume;
  told_.cached = progress.cached;
  told_.processed = std::max(told_.processed, progress.processed);
  const bool begun = before.tokens > 0 || before.beside > 0;
  const hidden_if hidden(output_, begun || (before.started && progress.processed <= before.processed));
  writer_->progress(output_, progress);
}

void job_execution::restore(std::span<const engine::token_id> tokens, bool values) {
  constexpr float written = std::numeric_limits<float>::quiet_NaN();
  for (const engine::token_id id : tokens) {
    const engine::token_logprob value{id, written};
    token(id, std::span(&value, values ? 1 : 0));
  }
}

void job_execution::token(engine::token_id id, std::span<const engine::token_logprob> logprobs) {
  // Tokens that were sampled before the cancel of a stop string took effect are not part of the output.
  if (stopped_ || stream_over_) return;
  told_.tokens = ++tokens_;
  const hidden_if hidden(output_, tokens_ <= config_.resume.tokens);
  auto piece = text_.push(id);
  // No token follows the last one that could complete a held-back character or stop string: all held-back
  // text goes with it.
  if (tokens_ == config_.max_tokens && !piece.stopped) piece.text += text_.finish();
  bool over = piece.stopped;
  if (!gone_) {
    const std::uint32_t index = tokens_ - 1;
    over = writer_->token(output_, {id, index, piece.text, piece.stopped, logprobs, piece.stop}) || over;
    if (!piece.text.empty()) next_index_ = index + 1;
  }
  if (!over) return;
  stopped_ = true;
  if (!cancel_) cancel_ = cancel_reason::stop_string;
}

void job_execution::beside_output(const beside_token& token) {
  if (stopped_ || stream_over_ || gone_) return;
  const hidden_if hidden(output_, ++told_.beside <= config_.resume.beside);
  writer_->beside_output(output_, token);
}

void job_execution::fail(const error& failure) {
  failure_ = failure;
  if (failure.code == errc::inference_timeout) failure_->permanent = config_.deadline_is_final;
  if (stream_over_) return;
  writer_->failed(failure_frame_, *failure_);
  stream_over_ = true;
}

void job_execution::ended(const terminal_event& event, steady_time now) {
  job_over_ = true;
  ended_at_ = now;
  if (cancel_ && *cancel_ != cancel_reason::stop_string) cancel_time_ = now - cancelled_at_;
  stats_ = std::visit([](const auto& e) { return e.stats; }, event);
  stats_.resumed = engines_;
  if (stopped_) stats_.tokens_out = tokens_;
  const auto* failed = std::get_if<engine::error_event>(&event);
  if (failed != nullptr) return fail(failed->failure);
  finished_ = stopped_ ? engine::finish_reason::stop : std::get<engine::end_event>(event).reason;
  if (!stream_over_) finish(event);
}

void job_execution::finish(const terminal_event& event) {
  const auto& before = config_.resume;
  const hidden_if all_hidden(output_, before.ended);
  // The event of the last token, if it had one, was sent already. Text that the end sets free gets the index
  // after it, so that no two events have the same.
  const std::string tail = !stopped_ && tokens_ > 0 ? text_.finish() : std::string();
  const std::uint32_t index = tokens_ > 0 ? std::max(tokens_ - 1, next_index_) : 0;
  if (!tail.empty()) {
    const hidden_if hidden(output_, index < before.tail);
    writer_->tail(output_, tail, index);
  }
  if (const auto* end = std::get_if<engine::end_event>(&event)) writer_->pooled(end->pooled);
  writer_->ended(output_, *finished_, stats_);
  told_.ended = stream_over_ = true;
}

void job_execution::client_gone(steady_time now) {
  // A client that closes after reading the last event has missed nothing.
  if (job_over_) return;
  gone_ = true;
  output_.clear();
  failure_frame_.clear();
  cancel(cancel_reason::disconnected, now);
}

void job_execution::cancel(cancel_reason reason, steady_time now) {
  // The first reason counts; after a stop string, too, no later cancel changes the normal end.
  if (cancel_ || job_over_) return;
  cancel_ = reason;
  cancelled_at_ = now;
}

void job_execution::tick(steady_time now) {
  if (config_.deadline && now >= *config_.deadline) cancel(cancel_reason::timeout, now);
  if (cancel_ && *cancel_ != cancel_reason::stop_string && !stream_over_ &&
      now - cancelled_at_ >= config_.cancel_confirm) {
    fail(cancelled_without_event(*cancel_));
  }
  if (!stream_over_ && !gone_ && output_.empty() && now - last_output_ >= config_.keep_alive) {
    writer_->keep_alive(output_);
  }
}

std::optional<cancel_reason> job_execution::take_cancel() noexcept {
  if (!cancel_ || job_over_ || std::exchange(cancel_taken_, true)) return std::nullopt;
  return cancel_;
}

std::string job_execution::take_output(steady_time now, bool tells_failure) {
  std::string out = std::exchange(output_, {});
  const std::string failure = std::exchange(failure_frame_, {});
  if (tells_failure) out += failure;
  if (!out.empty()) last_output_ = now;
  return out;
}

steady_time job_execution::next_tick() const noexcept {
  if (stream_over_) return last_output_ + std::chrono::hours(1);
  steady_time next = last_output_ + (gone_ ? std::chrono::hours(1) : config_.keep_alive);
  if (config_.deadline && !cancel_) next = std::min(next, *config_.deadline);
  if (cancel_ && *cancel_ != cancel_reason::stop_string)
    next = std::min(next, cancelled_at_ + config_.cancel_confirm);
  return next;
}

outcome job_execution::result() const noexcept {
  if (finished_) return gone_ ? outcome::disconnected : outcome::completed;
  if (cancel_ == cancel_reason::disconnected) return outcome::disconnected;
  if (failure_ && failure_->code == errc::inference_timeout) return outcome::timeout;
  if (failure_ && failure_->code == errc::cancelled) return outcome::cancelled;
  return outcome::error;
}

phase job_execution::where() const noexcept {
  if (tokens_ > 0) return phase::decode;
  return started_ ? phase::prefill : phase::queued;
}

}  // namespace orcd::net
