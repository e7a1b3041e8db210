// One request whose jobs run: the state that its pump, its disconnect watch and /cancel share. io thread
// only; lives in the coroutine frame of run_jobs. Private to net/.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "net/http/signal.hpp"
#include "net/jobs/admission_hold.hpp"
#include "net/jobs/event_channel.hpp"
#include "net/jobs/job_group.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

struct job_stream final : open_stream {
  job_stream(service& s, connection& c, job_group jobs, std::vector<engine::job_request> job_requests,
             std::shared_ptr<admission_hold> places)
      : owner(s),
        link(c),
        group(std::move(jobs)),
        hold(std::move(places)),
        requests(std::move(job_requests)),
        wake(std::make_shared<signal>(c.stream.get_executor())),
        events(requests.size()),
        cached(requests.size()),
        last_token(requests.size()) {
    for (const auto& job : requests) shows_values.push_back(job.logprobs);
  }

  service& owner;
  connection& link;
  job_group group;
  std::shared_ptr<admission_hold> hold;
  std::vector<engine::job_request> requests;  ///< of the jobs; empty from submission on
  std::size_t next = 0;                       ///< the first job that was not submitted
  std::shared_ptr<signal> wake;
  std::vector<std::shared_ptr<event_channel>> events;  ///< one for each job that was submitted
  std::vector<resume_point> known;    ///< what the client had been told of each job by another engine
  std::vector<bool> shows_values;     ///< of each job: log probabilities
  std::vector<std::uint32_t> cached;  ///< tokens of each job's prompt that were there when it began
  std::vector<std::optional<engine::steady_time>> last_token;  ///< when it came, for each job
  bool chunked = true;       ///< HTTP/1.1; HTTP/1.0 ends the body by closing
  bool keep_alive = false;   ///< the connection may serve another request after a good end
  bool writable = true;      ///< no write has failed
  bool gone = false;         ///< the client left while the jobs ran
  bool half_closed = false;  ///< the client sends no more; it may still read, or be gone
  bool must_ask = false;     ///< something must be sent, which fails if the client is gone
  bool watching = true;      ///< cleared to end the disconnect watch

  void cancel(engine::cancel_reason reason) override {
    group.cancel(reason, std::chrono::steady_clock::now());
    pass_cancel();
    wake->raise();
  }
  /// The client closed the connection: nobody reads what the jobs still make.
  void client_gone() {
    // It may be noticed twice, by a failed write and by a read; it counts once, and only while a job runs.
    if (group.job_over() || std::exchange(gone, true)) return;
    if (!is_left()) ++owner.metrics.disconnects[static_cast<std::size_t>(group.where())];
    group.client_gone(std::chrono::steady_clock::now());
    pass_cancel();
    wake->raise();
  }
  /// The client closed its sending side. Only sending something to it shows whether it still reads.
  void sends_no_more() {
    half_closed = true;
    must_ask = true;
    wake->raise();
  }
  void pass_cancel() {
    for (std::size_t job = 0; job < requests.size(); ++job) {
      const auto reason = group.executions()[job].take_cancel();
      if (!reason) continue;
      if (job < next) {
        owner.context.jobs.cancel(hold->ids()[job], *reason);
      } else {
        end_unsubmitted(job, *reason);
      }
    }
  }
  /// Another engine has the client: this one has gone, not the client.
  [[nodiscard]] bool is_left() const noexcept { return link.record && link.record->is_left(); }
  /// Submits the jobs for which there are places: all, unless there are more than slots. None for a client
  /// that another engine has: the device is at rest, and the journal tells of that engine's jobs.
  void submit() {
    if (is_left()) client_gone();
    for (; next < requests.size(); ++next) {
      if (group.executions()[next].job_over()) {
        hold->skip();
      } else if (hold->can_submit()) {
        submit_next();
      } else {
        return;
      }
    }
  }

 private:
  void submit_next() {
    auto& job = requests[next];
    const std::uint32_t of_output = job.logprobs ? 1 + job.top_logprobs : 0;
    const std::uint32_t logprobs = std::max(of_output, job.score_from > 0 ? 1 + job.score_top : 0);
    events[next] = std::make_shared<event_channel>(link.stream.get_executor(), wake,
                                                   static_cast<std::uint32_t>(job.events_max()), logprobs);
    // The event may come after this object's end.
    events[next]->on_terminal([weak = std::weak_ptr<admission_hold>(hold), index = next] {
      if (const auto still = weak.lock()) still->job_ended(index);
    });
    hold->submit(std::exchange(job, {}), events[next]);
  }
  void end_unsubmitted(std::size_t job, engine::cancel_reason reason) {
    const auto end = end_of_unsubmitted(reason, requests[job].tokens_in());
    group.executions()[job].ended(end, std::chrono::steady_clock::now());
  }
};

}  // namespace orcd::net
