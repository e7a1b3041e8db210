// The jobs of one request, prepared and not submitted yet. Private to net/.
#pragma once

#include <string>
#include <vector>

#include "engine/schedule/job.hpp"
#include "net/jobs/job_group.hpp"
#include "net/jobs/request_facts.hpp"

namespace orcd::net {

struct job_batch {
  std::string id;                         ///< the id that /cancel takes
  std::vector<engine::job_request> jobs;  ///< distinct ids
  std::vector<job_execution> executions;  ///< one for each job
  answer_plan answer;
  request_facts facts;
};

}  // namespace orcd::net
