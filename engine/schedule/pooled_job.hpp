// A job whose inputs are pooled: a sequence for each input, computed in whatever slots are free, and one
// answer when all have ended. The job starts with its first sequence and has one terminal event. Private to
// engine/schedule; the scheduler's thread only.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/schedule/sequence.hpp"

namespace orcd::engine {

class pooled_job : public std::enable_shared_from_this<pooled_job> {
 public:
  pooled_job(job_request request, std::shared_ptr<event_sink> sink);

  [[nodiscard]] const job_request& request() const noexcept { return request_; }
  [[nodiscard]] double elapsed_ms(steady_time now) const noexcept {
    return ms_between(request_.received_at, now);
  }

  /// Whether there are inputs that no sequence was made for; false after a failure.
  [[nodiscard]] bool has_next() const noexcept { return !failure_ && next_ < request_.inputs.size(); }
  /// The sequence of the next input; its events come to this object.
  [[nodiscard]] std::unique_ptr<sequence> next();
  /// Makes no more sequences. Once those that run have ended, the terminal event is this error; of several,
  /// the first.
  void end(const error& why, double elapsed_ms);

 private:
  class input_sink;
  void started(double queue_ms);
  void ended(std::size_t input, pooled_values values, const job_stats& stats);
  void failed(const error& why, const job_stats& stats);
  void note_end(const job_stats& stats);
  void finish_if_over();

  job_request request_;
  std::shared_ptr<event_sink> sink_;
  std::vector<pooled_values> results_;  ///< of each input
  std::size_t next_ = 0;
  std::size_t running_ = 0;  ///< sequences from next() that have not ended
  bool started_ = false;
  bool finished_ = false;
  std::optional<error> failure_;
  job_stats stats_;
};

}  // namespace orcd::engine
