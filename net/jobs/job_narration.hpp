// What the log and the metrics are told about the jobs of a request; never text of a prompt or an answer. io
// thread only. Source: M0-W-1901, WORK-3080, 3122. Private to net/.
#pragma once

#include "net/http/http_request.hpp"
#include "net/jobs/job_batch.hpp"
#include "net/jobs/service.hpp"

namespace orcd::net {

void narrate_start(service& s, const http_request& request, const job_batch& batch);
void narrate_deadline(service& s, const http_request& request, const job_batch& batch);
void narrate_refusal(service& s, const http_request& request, const engine::error& failure, unsigned status);
/// Counts a finished job and narrates its end.
void account(service& s, const http_request& request, const job_execution& execution);

}  // namespace orcd::net
