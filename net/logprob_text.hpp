// Log probabilities as the two completion endpoints write them. Pure. Source: features.md (d). Private to
// net/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/sampling/logprobs.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/completion_request.hpp"

namespace orcd::net {

/// A token of the output.
struct logprob_entry {
  std::vector<engine::token_logprob> logprobs;  ///< its own, then those of the likeliest
  std::size_t first_byte = 0;                   ///< where its bytes begin in the output
  std::size_t text_offset = 0;                  ///< the same in code points
};

/// chat: {"content":[...],"refusal":null}; text: {"tokens":[...],"token_logprobs":[...],...}.
[[nodiscard]] std::string render_logprobs(completion_kind kind, std::span<const logprob_entry> entries,
                                          const engine::tokenizer& vocabulary);

}  // namespace orcd::net
