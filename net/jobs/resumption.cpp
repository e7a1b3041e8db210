#include "net/jobs/resumption.hpp"

#include <algorithm>

namespace orcd::net {

std::optional<std::vector<told_job>> told_jobs(std::span<const journal_event> events, std::size_t jobs) {
  std::vector<told_job> out(jobs);
  for (const journal_event& event : events) {
    if (event.job >= jobs) return std::nullopt;
    told_job& job = out[event.job];
    switch (event.what) {
      case journal_event::kind::started: job.point.started = true; break;
      case journal_event::kind::progress:
        job.point.processed = std::max(job.point.processed, static_cast<std::uint32_t>(event.token));
        break;
      case journal_event::kind::beside: ++job.point.beside; break;
      case journal_event::kind::ended: job.point.ended = true; break;
      case journal_event::kind::first_token: job.first_token = std::chrono::milliseconds(event.token); break;
      case journal_event::kind::token:
        ++job.point.tokens;
        job.tokens.push_back(event.token);
        job.unwritten = event.unwritten;
        break;
    }
  }
  return out;
}

std::optional<std::size_t> taken_tokens(const engine::job_request& job, const told_job& told) noexcept {
  if (job.score_from > 0 || !job.inputs.empty()) return std::nullopt;
  if (!job.logprobs) return told.tokens.size();
  if (told.unwritten == all_unwritten) return std::nullopt;
  return told.tokens.size() - std::min<std::size_t>(told.unwritten, told.tokens.size());
}

bool are_tokens_of(const engine::job_request& job, std::span<const engine::token_id> tokens,
                   std::uint32_t vocab) noexcept {
  return tokens.size() <= job.max_tokens &&
         std::all_of(tokens.begin(), tokens.end(),
                     [&](engine::token_id id) { return id >= 0 && static_cast<std::uint32_t>(id) < vocab; });
}

std::optional<journal_event> event_between(std::size_t job, const resume_point& before,
                                           const resume_point& after, const resume_point& known,
                                           engine::token_id token) noexcept {
  using kind = journal_event::kind;
  const auto index = static_cast<std::uint16_t>(job);
  if (after.ended && !before.ended && !known.ended) return journal_event{index, kind::ended, -1};
  if (after.tokens > std::max(before.tokens, known.tokens)) return journal_event{index, kind::token, token};
  if (after.beside > std::max(before.beside, known.beside)) return journal_event{index, kind::beside, -1};
  if (after.processed > std::max(before.processed, known.processed)) {
    return journal_event{index, kind::progress, static_cast<std::int32_t>(after.processed)};
  }
  if (after.started && !before.started && !known.started) return journal_event{index, kind::started, -1};
  return std::nullopt;
}

}  // namespace orcd::net
