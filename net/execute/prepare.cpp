#include "net/execute/prepare.hpp"

#include <utility>

#include "engine/narration.hpp"
#include "net/jobs/job_checks.hpp"
#include "net/jobs/time_limit.hpp"
#include "net/json/request_fields.hpp"
#include "net/json/text.hpp"

namespace orcd::net {

engine::result<prepared_job> prepare_job(const http_request& request, const engine::tokenizer& tokenizer,
                                         const request_limits& limits,
                                         std::chrono::system_clock::time_point wall) {
  const auto deadline_left = read_deadline(request, wall);
  if (!deadline_left) return deadline_left.error();
  const auto session = read_session(request);
  if (!session) return session.error();
  auto asked = parse_execute(request.body, limits);
  if (!asked) return asked.error();
  const auto limit = fix_time_limit(request, asked->timeout, *deadline_left, limits);
  if (!limit) return limit.error();

  prepared_job prepared;
  engine::encode_options options;
  options.parse_special = asked->parse_special;
  prepared.job.prompt = tokenizer.encode(asked->prompt, options);
  const auto max_tokens = fit_to_context(asked->max_tokens, prepared.job.prompt.size(), limits);
  if (!max_tokens) return max_tokens.error();
  prepared.facts.prompt_digest = engine::prompt_digest(asked->prompt);
  prepared.facts.prompt_chars = code_points(asked->prompt);
  prepared.facts.deadline_left = *deadline_left;
  prepared.stop = std::move(asked->stop);
  prepared.metrics = asked->metrics;
  prepared.job.deadline = limit->at;
  prepared.facts.deadline_is_final = limit->is_final;
  prepared.job.job_id = std::move(asked->job_id);
  prepared.job.max_tokens = *max_tokens;
  prepared.job.sampling = asked->sampling;
  prepared.job.seed = asked->seed ? *asked->seed : random_bits();
  prepared.job.ignore_eos = asked->ignore_eos;
  prepared.job.received_at = request.received_at;
  prepared.job.cache = std::move(asked->cache);
  if (prepared.job.cache.session.empty()) prepared.job.cache.session = *session;
  return prepared;
}

}  // namespace orcd::net
