#include "engine/schedule/pooled_job.hpp"

#include <algorithm>
#include <utility>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

class pooled_job::input_sink final : public event_sink {
 public:
  input_sink(std::shared_ptr<pooled_job> job, std::size_t input) : job_(std::move(job)), input_(input) {}

  void offer(const job_event& event) noexcept override {
    if (const auto* start = std::get_if<started_event>(&event)) return job_->started(start->queue_ms);
    if (const auto* failure = std::get_if<error_event>(&event)) {
      return job_->failed(failure->failure, failure->stats);
    }
    const auto& end = std::get<end_event>(event);
    ORCD_ENSURE(end.pooled.size() == 1);
    job_->ended(input_, end.pooled.front(), end.stats);
  }

 private:
  std::shared_ptr<pooled_job> job_;
  std::size_t input_;
};

pooled_job::pooled_job(job_request request, std::shared_ptr<event_sink> sink)
    : request_(std::move(request)), sink_(std::move(sink)), results_(request_.inputs.size()) {
  ORCD_ENSURE(sink_ != nullptr && !request_.inputs.empty() && request_.prompt.empty());
  stats_.tokens_in = request_.tokens_in();
}

// Without the prefix cache: pooling needs the final states of all tokens, and the cache has only keys and
// values.
std::unique_ptr<sequence> pooled_job::next() {
  ORCD_ENSURE(has_next());
  pooled_input& input = request_.inputs[next_];
  job_request one;
  one.job_id = request_.job_id;
  one.prompt = std::move(input.tokens);
  one.deadline = request_.deadline;
  one.received_at = request_.received_at;
  one.cache.enabled = false;
  one.suspect = request_.suspect;
  one.watch = request_.watch;
  const auto tokens = static_cast<std::uint32_t>(one.prompt.size());
  auto sink = std::make_shared<input_sink>(shared_from_this(), next_);
  auto out = std::make_unique<sequence>(std::move(one), std::move(sink));
  out->pool = pool_request{tokens, input.second_segment};
  ++next_;
  ++running_;
  return out;
}

void pooled_job::end(const error& why, double elapsed_ms) {
  if (!failure_) failure_ = why;
  if (!started_) stats_.queue_ms = elapsed_ms;
  finish_if_over();
}

void pooled_job::started(double queue_ms) {
  if (std::exchange(started_, true)) return;
  stats_.queue_ms = queue_ms;
  sink_->offer(started_event{queue_ms});
}

void pooled_job::ended(std::size_t input, pooled_values values, const job_stats& stats) {
  results_[input] = std::move(values);
  note_end(stats);
  finish_if_over();
}

void pooled_job::failed(const error& why, const job_stats& stats) {
  if (!failure_) failure_ = why;
  note_end(stats);
  finish_if_over();
}

/// prefill_ms of the job is the time from its first sequence's start to its last one's end.
void pooled_job::note_end(const job_stats& stats) {
  --running_;
  if (started_) {
    stats_.prefill_ms = std::max(stats_.prefill_ms, stats.queue_ms + stats.prefill_ms - stats_.queue_ms);
  } else {
    stats_.queue_ms = std::max(stats_.queue_ms, stats.queue_ms);
  }
}

void pooled_job::finish_if_over() {
  if (running_ > 0 || has_next() || finished_) return;
  finished_ = true;
  if (failure_) {
    sink_->offer(error_event{*failure_, stats_});
  } else {
    sink_->offer(end_event{finish_reason::stop, stats_, std::move(results_)});
  }
}

}  // namespace orcd::engine
