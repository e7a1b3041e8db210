#include "net/job_narration.hpp"

#include "engine/narration.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;
using engine::severity;
using std::chrono::steady_clock;

void narrate_end(service& s, const http_request& request, const execution& run, double duration_ms) {
  const auto& stats = run.stats();
  const auto how = run.result();
  if (how == outcome::disconnected) {
    s.context.narrator.narrate(
        severity::info, "disconnect", "The client went away; its job was ended.",
        {{"job_id", run.job_id()}, {"request_id", request.request_id}, {"phase", to_string(run.where())}});
  } else if (how == outcome::error && run.failure()->code == errc::draining) {
    s.context.narrator.narrate(severity::warning, "drain_ended_job",
                               "The worker stops; a job that still ran was ended.",
                               {{"job_id", run.job_id()}, {"request_id", request.request_id}});
  } else if (how == outcome::error) {
    s.context.narrator.narrate(severity::error, "error", "A job failed.",
                               {{"job_id", run.job_id()},
                                {"request_id", request.request_id},
                                {"code", engine::code_name(run.failure()->code)}});
  }
  s.context.narrator.narrate(severity::info, "execute_end", "A job ended.",
                             {{"job_id", run.job_id()},
                              {"request_id", request.request_id},
                              {"outcome", to_string(how)},
                              {"tokens_in", std::uint64_t{stats.tokens_in}},
                              {"tokens_out", std::uint64_t{stats.tokens_out}},
                              {"queue_ms", stats.queue_ms},
                              {"prefill_ms", stats.prefill_ms},
                              {"first_token_ms", stats.first_token_ms},
                              {"decode_time_ms", stats.decode_ms},
                              {"duration_ms", duration_ms},
                              {"vram_bytes", std::uint64_t{s.context.state.vram_bytes.load()}}});
}

}  // namespace

void narrate_start(service& s, const http_request& request, const job_batch& batch) {
  for (const auto& job : batch.jobs) {
    s.context.narrator.narrate(severity::info, "execute_start", "A job was accepted.",
                               {{"job_id", job.job_id},
                                {"request_id", request.request_id},
                                {"prompt_digest", batch.prompt_digest},
                                {"prompt_chars", std::uint64_t{batch.prompt_chars}},
                                {"tokens_in", std::uint64_t{job.tokens_in()}},
                                {"max_tokens", std::uint64_t{job.max_tokens}},
                                {"seed", job.seed},
                                {"waiting", std::uint64_t{s.context.admission.waiting()}}});
  }
}

void narrate_deadline(service& s, const http_request& request, const job_batch& batch) {
  if (!batch.deadline_left) return;
  const auto left = *batch.deadline_left;
  s.metrics.deadline_remaining_seconds.observe(std::chrono::duration<double>(left).count());
  s.context.narrator.narrate(severity::info, "deadline", "The request carries X-Deadline.",
                             {{"job_id", batch.id},
                              {"request_id", request.request_id},
                              {"remaining_ms", std::int64_t{left.count()}},
                              {"enforced", s.config.execute.deadlines == deadline_mode::enforce}});
}

void narrate_refusal(service& s, const http_request& request, const error& failure, unsigned status) {
  // Not the message: it may quote what the client sent.
  s.context.narrator.narrate(severity::info, "request_refused", "A request for a job was refused.",
                             {{"request_id", request.request_id},
                              {"code", engine::code_name(failure.code)},
                              {"status", std::uint64_t{status}}});
}

void account(service& s, const http_request& request, const execution& run) {
  const double duration_ms =
      std::chrono::duration<double, std::milli>(steady_clock::now() - request.received_at).count();
  s.metrics.count_job(run.result(), run.stats(), duration_ms);
  if (const auto time = run.cancel_time()) s.metrics.cancel_to_idle_seconds.observe(time->count());
  narrate_end(s, request, run, duration_ms);
}

}  // namespace orcd::net
