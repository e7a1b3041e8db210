// What the jobs of one request hold of the worker while they run: their places in admission, the name that
// /cancel knows the request by, and its entry in the map of open streams. io thread only. Private to net/.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/http/api_keys.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

/// A request has at most as many places as the worker has slots. Of more jobs, each takes the place of one
/// that has ended: the request waits by itself, and others find the places in between that they would find
/// beside a request of fewer jobs.
///
/// enter(), show(), submit() or skip() for each job in turn, job_ended() for each that was submitted,
/// finish(). Each is given back once, in any order of the last two. Destroyed by an exception, it cancels the
/// jobs that were submitted.
class admission_hold {
 public:
  /// `request_id` and the jobs' ids are those that the client knows; the worker scopes them by `owner`, so
  /// that two keys may use the same. `on_jobs_over` is called when the last job has ended before finish():
  /// what is left of the answer is for the client to read.
  admission_hold(service& s, std::string request_id, const std::vector<engine::job_request>& jobs,
                 const key_owner& owner, std::function<void()> on_jobs_over);
  ~admission_hold();
  admission_hold(const admission_hold&) = delete;
  admission_hold& operator=(const admission_hold&) = delete;

  /// What the worker calls the jobs (scoped_job_id).
  [[nodiscard]] const std::vector<std::string>& ids() const noexcept { return jobs_; }

  /// Takes the request's places, or none. Errors: as admission::enter; `again`: as enter_again.
  [[nodiscard]] engine::result<void> enter(bool again = false);
  /// From now on /cancel and the end of the server reach the stream.
  void show(open_stream& stream);
  /// Whether there is a place for the next job.
  [[nodiscard]] bool can_submit() const noexcept { return next_ < entered_ || !over_.empty(); }
  /// Hands the next job to the scheduler, in the order of the constructor's list.
  void submit(engine::job_request job, std::shared_ptr<engine::event_sink> events);
  /// The next job was ended before there was a place for it.
  void skip();
  /// A job has ended in the scheduler. After the last, places and ids are free for others, however long the
  /// client leaves the answer unread.
  void job_ended(std::size_t job);
  /// The answer is written, or the client is gone.
  void finish();

 private:
  [[nodiscard]] engine::result<void> enter_all(bool again);
  void count_end();
  void leave();
  void hide();
  void give_up() noexcept;
  [[nodiscard]] bool try_to_give_up() noexcept;

  service& service_;
  const key_owner owner_;
  const std::string shown_id_;  ///< as the client knows it
  const std::string id_;        ///< scoped
  std::function<void()> on_jobs_over_;
  std::vector<std::string> jobs_;  ///< scoped
  std::size_t unfinished_;
  std::size_t entered_ = 0;                   ///< the first jobs, which have a place from the beginning
  std::size_t next_ = 0;                      ///< to be submitted or skipped
  std::vector<std::size_t> inside_;           ///< jobs that have a place
  std::vector<std::size_t> over_;             ///< of them, those that have ended
  std::vector<const std::string*> reserved_;  ///< names: of id_ and jobs_
  bool shown_ = false, answering_ = false;
};

}  // namespace orcd::net
