#include "net/execute/prepare.hpp"

#include <utility>

#include "engine/base/narration.hpp"
#include "net/jobs/job_checks.hpp"
#include "net/jobs/time_limit.hpp"
#include "net/json/request_fields.hpp"
#include "net/json/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;

result<std::optional<std::uint32_t>> read_last_event_id(const http_request& request,
                                                        const execute_request& asked) {
  if (!request.last_event_id) return std::optional<std::uint32_t>();
  const auto id = parse_last_event_id(*request.last_event_id);
  if (!id) return id.error();
  if (!asked.seed && asked.sampling.temperature > 0.0F) {
    return error(errc::invalid_request, "'seed' is missing: with Last-Event-ID it must be that of the stream",
                 "seed");
  }
  return std::optional<std::uint32_t>(*id);
}

}  // namespace

engine::result<prepared_job> prepare_job(const http_request& request, const engine::tokenizer& tokenizer,
                                         const request_limits& limits,
                                         std::chrono::system_clock::time_point wall,
                                         const shared_adapters& adapters) {
  const auto deadline_left = read_deadline(request, wall);
  if (!deadline_left) return deadline_left.error();
  const auto session = read_session(request);
  if (!session) return session.error();
  auto asked = parse_execute(request.body, limits);
  if (!asked) return asked.error();
  const auto last_event_id = read_last_event_id(request, *asked);
  if (!last_event_id) return last_event_id.error();
  const auto limit = fix_time_limit(request, asked->timeout, *deadline_left, limits);
  if (!limit) return limit.error();

  auto applied = adapters_of({nullptr, std::move(asked->lora)}, adapters);
  if (!applied) return applied.error();

  prepared_job prepared;
  prepared.job.adapters = std::move(*applied);
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
  prepared.last_event_id = *last_event_id;
  prepared.job.deadline = limit->at;
  prepared.facts.deadline_is_final = limit->is_final;
  prepared.job.job_id = std::move(asked->job_id);
  prepared.job.max_tokens = *max_tokens;
  prepared.job.sampling = asked->sampling;
  prepared.job.seed = asked->seed ? *asked->seed : id_series(request.nonce).next_bits();
  prepared.job.ignore_eos = asked->ignore_eos;
  prepared.job.received_at = request.received_at;
  prepared.job.cache = std::move(asked->cache);
  if (prepared.job.cache.session.empty()) prepared.job.cache.session = *session;
  return prepared;
}

}  // namespace orcd::net
