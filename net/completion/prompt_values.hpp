// What a request wants to know of its prompts' tokens (`prompt_logprobs`): its bound, and what jobs are asked
// for it. Pure. Private to net/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/base/error.hpp"
#include "engine/schedule/job.hpp"
#include "net/completion/completion_request.hpp"

namespace orcd::net {

/// Log probabilities of the tokens of prompts in one answer; each is some 60 bytes of it.
constexpr std::uint64_t prompt_values_max = 1U << 20U;

/// Adds those that a prompt of so many tokens has to `values`. Error: invalid_request beyond the bound.
[[nodiscard]] engine::result<void> add_prompt_values(const completion_request& asked, std::size_t tokens,
                                                     std::uint64_t& values);

/// Has the job tell its prompt's tokens, if the request wants them. One of a prompt's choices tells them for
/// all.
void score_prompt(engine::job_request& job, const completion_request& asked);

}  // namespace orcd::net
