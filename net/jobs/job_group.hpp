// The jobs of one request and the one answer that they give together: /execute has one job, a request for n
// choices has n. Pure: run_jobs.cpp carries out what this decides. io thread only. Private to net/.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "net/http/respond.hpp"
#include "net/jobs/job_execution.hpp"

namespace orcd::net {

/// What the answer consists of besides the frames that the jobs' own outputs (job_output.hpp) make.
struct answer_plan {
  bool streams = true;
  /// Makes a stream's last frames, when every job has run to its end; may be empty.
  std::function<std::string()> closing{};
  /// Makes the body of an answer that is no stream, when every job has run to its end.
  std::function<std::string()> body{};
  /// `body` takes long: it is called on a background thread, so that it must use nothing of the io thread.
  bool body_in_background = false;
};

class job_group {
 public:
  /// At least one job. `id` is the id that /cancel takes.
  job_group(std::string id, std::vector<job_execution> executions, answer_plan plan);

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] std::vector<job_execution>& executions() noexcept { return executions_; }
  [[nodiscard]] const std::vector<job_execution>& executions() const noexcept { return executions_; }
  [[nodiscard]] bool streams() const noexcept { return plan_.streams; }

  // What happened to all jobs at once; what happens to one job goes to its execution.
  void cancel(engine::cancel_reason reason, engine::steady_time now);
  void client_gone(engine::steady_time now);
  /// Passes the time on. If one job has failed, the others are ended: the answer is lost.
  void tick(engine::steady_time now);

  /// Frames to write now. The first job's failure is the last frame of the stream; other failures are not
  /// told.
  [[nodiscard]] std::string take_output(engine::steady_time now);
  [[nodiscard]] std::size_t output_bytes() const noexcept;
  [[nodiscard]] engine::steady_time next_tick() const noexcept;
  /// Nothing follows the frames that were taken.
  [[nodiscard]] bool stream_over() const noexcept { return over_; }
  /// Every job has ended in the scheduler.
  [[nodiscard]] bool job_over() const noexcept;
  /// The answer is complete, but a job has not confirmed in time that it ended.
  [[nodiscard]] bool gave_up() const noexcept { return all_streams_over() && !job_over(); }
  /// The answer of a request that does not stream. Only once stream_over().
  [[nodiscard]] reply final_reply() const;
  /// What makes the body of final_reply(), for a background thread; empty where final_reply() is to be called
  /// here. Only once stream_over().
  [[nodiscard]] std::function<std::string()> background_body() const;

  [[nodiscard]] bool completed() const noexcept;
  /// The phase of the job that got farthest.
  [[nodiscard]] phase where() const noexcept;

 private:
  [[nodiscard]] const job_execution* failed() const noexcept;
  /// No execution has any more frames to give.
  [[nodiscard]] bool all_streams_over() const noexcept;

  std::string id_;
  std::vector<job_execution> executions_;
  answer_plan plan_;
  bool over_ = false;
};

}  // namespace orcd::net
