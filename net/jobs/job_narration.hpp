// What the log, the metrics and the spans are told about the jobs of a request; never text of a prompt or an
// answer. io thread only. Source: M0-W-1901, WORK-3080, 3122. Private to net/.
#pragma once

#include "net/http/http_request.hpp"
#include "net/jobs/job_batch.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

void narrate_start(service& s, const http_request& request, const job_batch& batch);
/// The LoRA adapters of the jobs, by name; nothing where there are none.
void narrate_adapters(service& s, const http_request& request, const job_batch& batch);
void narrate_deadline(service& s, const http_request& request, const job_batch& batch);
/// Counts a finished job and narrates its end.
void account(service& s, const http_request& request, const job_execution& execution);

/// What the spans of all jobs of a request need to know besides.
struct traced_jobs {
  engine::steady_time queued_at{};  ///< when they were prepared and asked for their places
  bool generate = false;
};
/// Notes a finished job for the request's line in the log, and for its spans where they are kept.
void note_job(connection& c, const job_execution& execution, const traced_jobs& jobs);

}  // namespace orcd::net
