#include "net/completion/prompt_values.hpp"

#include <algorithm>
#include <string>

#include "net/json/field_checks.hpp"

namespace orcd::net {

engine::result<void> add_prompt_values(const completion_request& asked, std::size_t tokens,
                                       std::uint64_t& values) {
  if (!asked.prompt_logprobs) return {};
  values += std::uint64_t{tokens} * (1 + *asked.prompt_logprobs);
  if (values <= prompt_values_max) return {};
  return refuse_field("prompt_logprobs", "would tell more than " + std::to_string(prompt_values_max) +
                                             " log probabilities in one answer");
}

void score_prompt(engine::job_request& job, const completion_request& asked) {
  if (!asked.prompt_logprobs) return;
  job.score_from = 1;
  job.score_top = std::max(job.score_top, *asked.prompt_logprobs);
  job.score_ranks = true;
}

}  // namespace orcd::net
