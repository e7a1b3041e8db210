// One job as its client sees it: events and clock in, bytes and cancels out. No socket, no timer, no Asio:
// run_jobs.cpp carries out what this decides. Source: M0-W-1310..1312, M0-W-1330, M0-W-1510, M0-W-1611,
// WORK-3052, 3053, 3072.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/schedule/job.hpp"
#include "engine/text/token_stream.hpp"
#include "net/jobs/job_output.hpp"
#include "net/jobs/terminal_event.hpp"
#include "net/status/metrics.hpp"

namespace orcd::net {

/// How much of a job's output a client has been told, in terms of what happened to the job. Frames do not
/// depend on when they are written, so that this says which of them a client has.
struct resume_point {
  bool started = false;
  std::uint32_t cached = 0;     ///< as prompt_progress has it
  std::uint32_t processed = 0;  ///< tokens of the prompt in the last progress, if the client is told of these
  std::uint32_t beside = 0;     ///< tokens of the prompt, and the end-of-generation token
  std::uint32_t tokens = 0;     ///< of the output
  std::uint32_t tail = 0;       ///< a tail whose index is less was told; see job_output::tail()
  bool ended = false;           ///< the normal end, and a tail

  /// The client has seen the event of /execute with this id.
  [[nodiscard]] static resume_point after_event(std::uint32_t id) noexcept;
};

struct job_execution_config {
  std::string job_id;
  std::string model;
  std::uint64_t seed = 0;
  std::uint32_t tokens_in = 0;
  std::uint32_t max_tokens = std::numeric_limits<std::uint32_t>::max();
  engine::steady_time received_at{};
  std::optional<engine::steady_time> deadline;
  bool deadline_is_final = false;  ///< it is X-Deadline, so that a retry would be late as well
  std::chrono::milliseconds keep_alive{15'000};
  /// A job that was cancelled and sends no terminal event for this long has its stream ended all the same
  /// (WORK-3044).
  std::chrono::milliseconds cancel_confirm{5'000};
  resume_point resume{};  ///< what is not to be told again
};

/// The error of a job that was cancelled and has no event that says so.
[[nodiscard]] engine::error cancelled_without_event(engine::cancel_reason reason);

/// The end of a job that was not submitted. A stop string in output that another process made ends it well.
[[nodiscard]] terminal_event end_of_unsubmitted(engine::cancel_reason reason, std::uint32_t tokens_in);

/// What is told by either.
[[nodiscard]] resume_point further_of(const resume_point& a, const resume_point& b) noexcept;

class job_execution {
 public:
  /// `writer` turns the job's output into the bytes that the client gets.
  job_execution(job_execution_config config, engine::token_stream text, std::unique_ptr<job_output> writer);

  // A job that began in another process. Before any other call, as often as is handy:
  /// Goes on behind what the client was told, where that is further than what it asked for: up to there, what
  /// is made is thrown away.
  void resume(const resume_point& told, std::uint32_t engines = 0) noexcept {
    config_.resume = further_of(config_.resume, told);
    engines_ = engines;
  }
  /// Then started() and progress(), as they were there, and the output that the other process made
  /// (job_request::produced), in order and in pieces of any size: a token takes less than a microsecond. Both
  /// may come again when the job has its slot.
  ///
  /// Of a job that shows log probabilities these must be tokens whose values were written: others come again
  /// by token(). `values`: it shows some.
  void restore(std::span<const engine::token_id> tokens, bool values = false);
  /// See job_output::unwritten_values().
  [[nodiscard]] std::size_t unwritten_values() const noexcept { return writer_->unwritten_values(); }
  /// What a client has been told once it has got all that take_output() has given.
  [[nodiscard]] const resume_point& told() const noexcept { return told_; }

  // Input: what has happened.
  void started(double queue_ms, std::chrono::system_clock::time_point wall);
  void progress(const prompt_progress& progress);
  /// `logprobs` as in output_token.
  void token(engine::token_id id, std::span<const engine::token_logprob> logprobs = {});
  /// A token of the prompt, or the end-of-generation token: told only to jobs that ask for it.
  void beside_output(const beside_token& token);
  void ended(const terminal_event& event, engine::steady_time now);
  /// The client has closed the connection, or a write failed or took too long.
  void client_gone(engine::steady_time now);
  /// POST /cancel or the end of the server asks for the end of the job.
  void cancel(engine::cancel_reason reason, engine::steady_time now);
  /// Applies the deadline, the keep-alive interval and the bound on a cancel's confirmation.
  void tick(engine::steady_time now);

  // Output: what is to be done.
  /// The cancel to pass to the job service; returned once.
  [[nodiscard]] std::optional<engine::cancel_reason> take_cancel() noexcept;
  /// Frames to write now. `tells_failure`: with the frame of this job's failure; false where another job's
  /// failure is told instead.
  [[nodiscard]] std::string take_output(engine::steady_time now, bool tells_failure = true);
  [[nodiscard]] std::size_t output_bytes() const noexcept { return output_.size(); }
  /// When tick() must be called next, at the latest.
  [[nodiscard]] engine::steady_time next_tick() const noexcept;
  /// The frame of the terminal event was made: nothing follows it.
  [[nodiscard]] bool stream_over() const noexcept { return stream_over_; }
  /// The job has ended in the scheduler: its id may be used again.
  [[nodiscard]] bool job_over() const noexcept { return job_over_; }

  // The result, for the log and the metrics.
  [[nodiscard]] bool closes_connection() const noexcept { return failure_.has_value(); }
  [[nodiscard]] outcome result() const noexcept;
  [[nodiscard]] phase where() const noexcept;
  [[nodiscard]] const engine::job_stats& stats() const noexcept { return stats_; }
  [[nodiscard]] const std::optional<engine::error>& failure() const noexcept { return failure_; }
  [[nodiscard]] const std::optional<engine::cancel_reason>& cancelled_by() const noexcept { return cancel_; }
  /// From the cancel to the terminal event; nothing when the job was not cancelled.
  [[nodiscard]] std::optional<std::chrono::duration<double>> cancel_time() const noexcept {
    return cancel_time_;
  }
  [[nodiscard]] const std::optional<engine::finish_reason>& finished() const noexcept { return finished_; }
  /// When the terminal event was taken.
  [[nodiscard]] engine::steady_time ended_at() const noexcept { return ended_at_; }
  [[nodiscard]] const std::string& job_id() const noexcept { return config_.job_id; }
  [[nodiscard]] engine::steady_time received_at() const noexcept { return config_.received_at; }

 private:
  void fail(const engine::error& failure);
  void finish(const terminal_event& event);

  job_execution_config config_;
  engine::token_stream text_;
  std::unique_ptr<job_output> writer_;
  std::string output_;
  std::string failure_frame_;
  engine::job_stats stats_;
  engine::steady_time last_output_;
  engine::steady_time cancelled_at_{};
  engine::steady_time ended_at_{};
  resume_point told_;
  std::uint32_t engines_ = 0;  ///< that have died with the job
  std::uint32_t tokens_ = 0;
  std::uint32_t next_index_ = 0;  ///< greater than the index of every token event so far
  bool started_ = false;
  bool stopped_ = false;  ///< by a stop string, or by the writer
  bool gone_ = false;
  bool stream_over_ = false;
  bool job_over_ = false;
  bool cancel_taken_ = false;
  std::optional<engine::cancel_reason> cancel_;
  std::optional<engine::error> failure_;
  std::optional<engine::finish_reason> finished_;
  std::optional<std::chrono::duration<double>> cancel_time_;
};

}  // namespace orcd::net
