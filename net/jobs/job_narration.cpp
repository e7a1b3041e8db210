#include "net/jobs/job_narration.hpp"

#include <cmath>

#include "engine/base/narration.hpp"
#include "net/traces/request_trace.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::severity;
using std::chrono::steady_clock;

void narrate_end(service& s, const http_request& request, const job_execution& execution,
                 double duration_ms) {
  const auto& stats = execution.stats();
  const auto how = execution.result();
  if (how == outcome::disconnected) {
    s.context.narrator.narrate(severity::info, "disconnect", "The client went away; its job was ended.",
                               {{"job_id", execution.job_id()},
                                {"request_id", request.request_id},
                                {"phase", to_string(execution.where())}});
  } else if (how == outcome::error && execution.failure()->code == errc::draining) {
    s.context.narrator.narrate(severity::warning, "drain_ended_job",
                               "The worker stops; a job that still ran was ended.",
                               {{"job_id", execution.job_id()}, {"request_id", request.request_id}});
  } else if (how == outcome::error) {
    s.context.narrator.narrate(severity::error, "error", "A job failed.",
                               {{"job_id", execution.job_id()},
                                {"request_id", request.request_id},
                                {"code", engine::code_name(execution.failure()->code)}});
  }
  s.context.narrator.narrate(severity::info, "execute_end", "A job ended.",
                             {{"job_id", execution.job_id()},
                              {"request_id", request.request_id},
                              {"outcome", to_string(how)},
                              {"tokens_in", std::uint64_t{stats.tokens_in}},
                              {"tokens_out", std::uint64_t{stats.tokens_out}},
                              {"queue_ms", stats.queue_ms},
                              {"prefill_ms", stats.prefill_ms},
                              {"first_token_ms", stats.first_token_ms},
                              {"decode_time_ms", static_cast<std::int64_t>(std::llround(stats.decode_ms))},
                              {"decode_ms", stats.decode_ms},
                              {"duration_ms", duration_ms},
                              {"vram_bytes", std::uint64_t{s.context.state.vram_bytes.load()}}});
}

/// The beginning and some milliseconds, as the scheduler's statistics have them.
engine::steady_time after(engine::steady_time begin, double ms) {
  const std::chrono::duration<double, std::milli> time(ms);
  return begin + std::chrono::duration_cast<engine::steady_time::duration>(time);
}

}  // namespace

void narrate_start(service& s, const http_request& request, const job_batch& batch) {
  for (const auto& job : batch.jobs) {
    s.context.narrator.narrate(severity::info, "execute_start", "A job was accepted.",
                               {{"job_id", job.job_id},
                                {"request_id", request.request_id},
                                {"key_name", request.owner.label},
                                {"prompt_digest", batch.facts.prompt_digest},
                                {"prompt_chars", std::uint64_t{batch.facts.prompt_chars}},
                                {"tokens_in", std::uint64_t{job.tokens_in()}},
                                {"max_tokens", std::uint64_t{job.max_tokens}},
                                {"seed", job.seed},
                                {"waiting", std::uint64_t{s.context.admission.waiting()}}});
  }
}

void narrate_adapters(service& s, const http_request& request, const job_batch& batch) {
  const auto& applied = batch.jobs.front().adapters;
  if (applied.empty() || s.context.adapters == nullptr) return;
  const std::string names = s.context.adapters->names_of(applied);
  s.context.narrator.narrate(
      severity::info, "adapters_applied", "A request has LoRA adapters.",
      {{"job_id", batch.id}, {"request_id", request.request_id}, {"adapters", std::string_view(names)}});
}

void narrate_deadline(service& s, const http_request& request, const job_batch& batch) {
  if (!batch.facts.deadline_left) return;
  const auto left = *batch.facts.deadline_left;
  s.metrics.deadline_remaining_seconds.observe(std::chrono::duration<double>(left).count());
  s.context.narrator.narrate(severity::info, "deadline", "The request carries X-Deadline.",
                             {{"job_id", batch.id},
                              {"request_id", request.request_id},
                              {"remaining_ms", std::int64_t{left.count()}},
                              {"enforced", s.config.execute.deadlines == deadline_mode::enforce}});
}

void account(service& s, const http_request& request, const job_execution& execution) {
  const double duration_ms =
      std::chrono::duration<double, std::milli>(steady_clock::now() - request.received_at).count();
  s.metrics.count_job(execution.result(), execution.stats(), duration_ms);
  if (const auto time = execution.cancel_time()) s.metrics.cancel_to_idle_seconds.observe(time->count());
  narrate_end(s, request, execution, duration_ms);
}

namespace {

/// For the request's line in the log.
void note_usage(request_note& note, const job_execution& execution) {
  const auto& stats = execution.stats();
  ++note.jobs;
  note.tokens_in += stats.tokens_in;
  note.tokens_cached += stats.tokens_cached;
  note.tokens_out += stats.tokens_out;
  if (execution.failure() && !note.failed) note.failed = execution.failure()->code;
  if (note.jobs > 1 || !execution.finished()) return;
  note.finish = *execution.finished() == engine::finish_reason::stop ? "stop" : "length";
}

}  // namespace

void note_job(connection& c, const job_execution& execution, const traced_jobs& jobs) {
  note_usage(c.note, execution);
  if (c.trace == nullptr) return;
  const auto& stats = execution.stats();
  job_trace job;
  job.job_id = execution.job_id();
  job.queued_at = jobs.queued_at;
  job.ended_at = execution.ended_at();
  if (execution.where() != phase::queued) {
    job.slot_at = after(execution.received_at(), stats.queue_ms);
    if (stats.first_token_ms > 0) job.first_token_at = after(execution.received_at(), stats.first_token_ms);
  }
  job.tokens_in = stats.tokens_in;
  job.tokens_out = stats.tokens_out;
  job.tokens_cached = stats.tokens_cached;
  job.resumed = stats.resumed;
  if (const auto& reason = execution.finished()) {
    job.finish = *reason == engine::finish_reason::stop ? "stop" : "length";
  }
  if (execution.failure()) job.error = execution.failure()->code;
  if (!c.trace->error) c.trace->error = job.error;
  c.trace->generates = jobs.generate;
  c.trace->jobs.push_back(std::move(job));
}

}  // namespace orcd::net
