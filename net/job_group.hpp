// The jobs of one request and the one answer that they make together: /execute has one job, a request for n
// choices has n. Pure: the session (run_jobs.cpp) carries out what this decides. Private to net/.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "net/execution.hpp"
#include "net/respond.hpp"

namespace orcd::net {

/// How the answer is completed. The frames of a stream come from the jobs' own outputs (job_output.hpp).
struct answer_form {
  bool streams = true;
  /// A stream's last frames, when every job has run to its end; may be empty.
  std::function<std::string()> closing{};
  /// The body of an answer that is no stream, when every job has run to its end.
  std::function<std::string()> whole{};
  /// `whole` takes long and needs nothing of the io thread: it is called on another one.
  bool whole_beside = false;
};

class job_group {
 public:
  /// At least one job. `id` is what /cancel names.
  job_group(std::string id, std::vector<execution> runs, answer_form form);

  [[nodiscard]] const std::string& id() const noexcept { return id_; }
  [[nodiscard]] std::vector<execution>& runs() noexcept { return runs_; }
  [[nodiscard]] const std::vector<execution>& runs() const noexcept { return runs_; }
  [[nodiscard]] bool streams() const noexcept { return form_.streams; }

  // What happened to all jobs; what happens to one of them is told to it (runs()).
  void cancel(engine::cancel_reason reason, engine::steady_time now);
  void client_gone(engine::steady_time now);
  /// The clock; and where one job failed, the others are ended, because the answer is lost.
  void tick(engine::steady_time now);

  /// Frames to write now. One job's failure is the last frame of the stream, however many have failed.
  [[nodiscard]] std::string take_output(engine::steady_time now);
  [[nodiscard]] std::size_t output_bytes() const noexcept;
  [[nodiscard]] engine::steady_time next_tick() const noexcept;
  /// Nothing follows what was taken.
  [[nodiscard]] bool stream_over() const noexcept { return over_; }
  /// Every job has ended in the scheduler.
  [[nodiscard]] bool job_over() const noexcept;
  /// A job has not confirmed its end in time: the answer is complete, but the jobs are not.
  [[nodiscard]] bool gave_up() const noexcept { return all_told() && !job_over(); }
  /// The answer of a request that does not stream; once stream_over().
  [[nodiscard]] reply whole() const;
  /// What writes the body of whole() on another thread; empty where whole() is to be called. Once
  /// stream_over().
  [[nodiscard]] std::function<std::string()> whole_beside() const;

  [[nodiscard]] bool completed() const noexcept;
  /// Where the job is that got farthest.
  [[nodiscard]] phase where() const noexcept;

 private:
  [[nodiscard]] const execution* failed() const noexcept;
  /// Every job has had its last say.
  [[nodiscard]] bool all_told() const noexcept;

  std::string id_;
  std::vector<execution> runs_;
  answer_form form_;
  bool over_ = false;
};

}  // namespace orcd::net
