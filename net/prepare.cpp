#include "net/prepare.hpp"

#include <algorithm>
#include <utility>

#include "engine/narration.hpp"
#include "net/request_fields.hpp"
#include "net/text.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using std::chrono::milliseconds;
using std::chrono::system_clock;

/// The time left to X-Deadline; nothing without the header.
result<std::optional<milliseconds>> read_deadline(const http_request& request,
                                                  system_clock::time_point wall) {
  using maybe = std::optional<milliseconds>;
  if (!request.deadline) return maybe();
  const auto deadline = parse_deadline(*request.deadline);
  if (!deadline) return deadline.error();
  return maybe(std::chrono::duration_cast<milliseconds>(*deadline - wall));
}

/// Which session the header names; empty without one.
result<std::string> read_session(const http_request& request) {
  if (!request.imc_id) return std::string();
  const std::size_t length = request.imc_id->size();
  if (length >= 1 && length <= cache_name_bytes_max) return *request.imc_id;
  return error(errc::invalid_request,
               "KRONK_IMC_ID must have 1 to " + std::to_string(cache_name_bytes_max) + " bytes, it has " +
                   std::to_string(length),
               "KRONK_IMC_ID");
}

std::optional<engine::steady_time> time_limit(const http_request& request, const execute_request& asked,
                                              std::optional<milliseconds> deadline_left,
                                              const execute_limits& limits) {
  std::optional<milliseconds> limit = asked.timeout;
  if (limits.inference_timeout.count() > 0) {
    limit = std::min(limit.value_or(limits.inference_timeout), limits.inference_timeout);
  }
  if (deadline_left && limits.deadlines == deadline_mode::enforce) {
    limit = std::min(limit.value_or(*deadline_left), *deadline_left);
  }
  if (!limit) return std::nullopt;
  return request.received_at + *limit;
}

}  // namespace

result<prepared_job> prepare_job(const http_request& request, const engine::tokenizer& tokenizer,
                                 const execute_limits& limits, system_clock::time_point wall) {
  const auto deadline_left = read_deadline(request, wall);
  if (!deadline_left) return deadline_left.error();
  const auto session = read_session(request);
  if (!session) return session.error();
  auto asked = parse_execute(request.body, limits);
  if (!asked) return asked.error();
  if (*deadline_left && (*deadline_left)->count() <= 0 && limits.deadlines == deadline_mode::enforce) {
    error late(
        errc::inference_timeout,
        "X-Deadline passed " + std::to_string(-(*deadline_left)->count()) + " ms before the request arrived",
        "X-Deadline");
    late.permanent = true;
    return late;
  }

  prepared_job prepared;
  engine::encode_options options;
  options.parse_special = asked->parse_special;
  prepared.job.prompt = tokenizer.encode(asked->prompt, options);
  const auto max_tokens = fit_to_context(*asked, prepared.job.prompt.size(), limits);
  if (!max_tokens) return max_tokens.error();
  prepared.prompt_digest = engine::prompt_digest(asked->prompt);
  prepared.prompt_chars = code_points(asked->prompt);
  prepared.deadline_left = *deadline_left;
  prepared.stop = std::move(asked->stop);
  prepared.metrics = asked->metrics;
  prepared.job.deadline = time_limit(request, *asked, *deadline_left, limits);
  prepared.deadline_is_final = *deadline_left && limits.deadlines == deadline_mode::enforce &&
                               prepared.job.deadline == request.received_at + **deadline_left;
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
