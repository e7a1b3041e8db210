// How the jobs of a request that a dead engine began are gone on with: from its events in the journal to what
// each client was told and which tokens need not be computed again. Pure. Private to net/.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "engine/schedule/job.hpp"
#include "net/jobs/job_execution.hpp"
#include "net/journal/journal_record.hpp"

namespace orcd::net {

/// What the client has been told of one job.
struct told_job {
  resume_point point{};
  std::vector<engine::token_id> tokens;                  ///< of the output; as many as `point` says
  std::uint8_t unwritten = 0;                            ///< journal_event::unwritten of the last of them
  std::optional<std::chrono::milliseconds> first_token;  ///< after the request came
};

/// One for each of `jobs` jobs; nullopt where the events are of another request.
[[nodiscard]] std::optional<std::vector<told_job>> told_jobs(std::span<const journal_event> events,
                                                             std::size_t jobs);

/// How many of the tokens that were told are taken as they are: all, but of an answer that shows log
/// probabilities only those whose values were written. What is not taken is computed again, and not sent
/// again. Nullopt: all is, from the prompt on, since its values are shown or any value may be shown again.
[[nodiscard]] std::optional<std::size_t> taken_tokens(const engine::job_request& job,
                                                      const told_job& told) noexcept;

/// Whether these can be a job's output: the journal's word alone does not count.
[[nodiscard]] bool are_tokens_of(const engine::job_request& job, std::span<const engine::token_id> tokens,
                                 std::uint32_t vocab) noexcept;

/// The event of the journal, if the client is told more by what was just done: from `before` to `after` of
/// what it has been told, and beyond what a dead engine had told it.
[[nodiscard]] std::optional<journal_event> event_between(std::size_t job, const resume_point& before,
                                                         const resume_point& after, const resume_point& known,
                                                         engine::token_id token) noexcept;

}  // namespace orcd::net
