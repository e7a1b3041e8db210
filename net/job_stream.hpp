// One running /execute request: what its pump, its disconnect watch and /cancel have in common.
// io thread only; lives in the coroutine frame of handle_execute. Private to net/.
#pragma once

#include <memory>
#include <utility>

#include "net/event_channel.hpp"
#include "net/execution.hpp"
#include "net/service.hpp"
#include "net/signal.hpp"

namespace orcd::net {

struct job_stream {
  job_stream(service& s, connection& c, execution e, std::uint32_t tokens_max)
      : owner(s),
        link(c),
        run(std::move(e)),
        wake(std::make_shared<signal>(c.stream.get_executor())),
        events(std::make_shared<event_channel>(c.stream.get_executor(), wake, tokens_max)) {}

  service& owner;
  connection& link;
  execution run;
  std::shared_ptr<signal> wake;
  std::shared_ptr<event_channel> events;
  bool chunked = true;   ///< HTTP/1.1; HTTP/1.0 ends the body by closing
  bool writable = true;  ///< no write has failed
  bool gone = false;     ///< the client left while the job ran
  bool watching = true;  ///< cleared to end the disconnect watch

  /// Ends the job for this reason, now: not after the write that may be in progress.
  void cancel(engine::cancel_reason reason) {
    run.cancel(reason, std::chrono::steady_clock::now());
    pass_cancel();
    wake->raise();
  }
  /// The client closed its side; what is left of the job has nobody to go to.
  void client_gone() {
    // Its end may show twice, as a failed write and as a read: it counts once, and only while the job runs.
    if (run.job_over() || std::exchange(gone, true)) return;
    ++owner.metrics.disconnects[static_cast<std::size_t>(run.where())];
    run.client_gone(std::chrono::steady_clock::now());
    pass_cancel();
    wake->raise();
  }
  void pass_cancel() {
    if (const auto reason = run.take_cancel()) owner.context.jobs.cancel(run.job_id(), *reason);
  }
};

}  // namespace orcd::net
