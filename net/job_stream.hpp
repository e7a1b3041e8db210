// One request whose jobs run: what its pump, its disconnect watch and /cancel have in common.
// io thread only; lives in the coroutine frame of run_jobs. Private to net/.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "net/event_channel.hpp"
#include "net/job_group.hpp"
#include "net/service.hpp"
#include "net/signal.hpp"

namespace orcd::net {

struct job_stream {
  job_stream(service& s, connection& c, job_group jobs, const std::vector<engine::job_request>& requests)
      : owner(s),
        link(c),
        group(std::move(jobs)),
        wake(std::make_shared<signal>(c.stream.get_executor())),
        last_token(requests.size()) {
    for (const auto& job : requests) {
      events.push_back(std::make_shared<event_channel>(c.stream.get_executor(), wake, job.max_tokens,
                                                       job.logprobs ? 1 + job.top_logprobs : 0));
    }
  }

  service& owner;
  connection& link;
  job_group group;
  std::shared_ptr<signal> wake;
  std::vector<std::shared_ptr<event_channel>> events;          ///< of each job
  std::vector<std::optional<engine::steady_time>> last_token;  ///< of each job
  bool chunked = true;      ///< HTTP/1.1; HTTP/1.0 ends the body by closing
  bool keep_alive = false;  ///< the connection may serve another request after a good end
  bool writable = true;     ///< no write has failed
  bool gone = false;        ///< the client left while the jobs ran
  bool watching = true;     ///< cleared to end the disconnect watch

  /// Ends the jobs for this reason, now: not after the write that may be in progress.
  void cancel(engine::cancel_reason reason) {
    group.cancel(reason, std::chrono::steady_clock::now());
    pass_cancel();
    wake->raise();
  }
  /// The client closed its side; what is left of the jobs has nobody to go to.
  void client_gone() {
    // Its end may show twice, as a failed write and as a read: it counts once, and only while a job runs.
    if (group.job_over() || std::exchange(gone, true)) return;
    ++owner.metrics.disconnects[static_cast<std::size_t>(group.where())];
    group.client_gone(std::chrono::steady_clock::now());
    pass_cancel();
    wake->raise();
  }
  void pass_cancel() {
    for (execution& run : group.runs()) {
      if (const auto reason = run.take_cancel()) owner.context.jobs.cancel(run.job_id(), *reason);
    }
  }
};

}  // namespace orcd::net
