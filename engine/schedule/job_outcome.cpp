#include "engine/schedule/job_outcome.hpp"

#include <cmath>
#include <string>

namespace orcd::engine {

job_outcome job_outcome::of(cancel_reason reason, double elapsed_ms) {
  switch (reason) {
    case cancel_reason::stop_string: return of(finish_reason::stop);
    case cancel_reason::client_cancel: return of(error(errc::cancelled, "the job was cancelled by request"));
    case cancel_reason::disconnected: return of(error(errc::cancelled, "the client closed its connection"));
    case cancel_reason::sibling_failed:
      return of(error(errc::cancelled, "another job of the same request failed"));
    case cancel_reason::shutdown:
      return of(error(errc::draining, "the worker is shutting down and ended the job"));
    case cancel_reason::timeout:
      return of(error(errc::inference_timeout, "the job was ended at its time limit, " +
                                                   std::to_string(std::llround(elapsed_ms)) +
                                                   " ms after it was received"));
  }
  return of(error(errc::internal, "unknown cancel reason"));
}

}  // namespace orcd::engine
