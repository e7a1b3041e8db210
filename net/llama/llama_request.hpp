// The bodies of POST /completion and /infill, llama-server's own: bytes to a validated request. What this
// worker does not have is taken only with the value that switches it off. Pure: no socket, no tokenizer.
// Private to net/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "net/completion/completion_request.hpp"
#include "net/completion/logprob_text.hpp"

namespace orcd::net {

/// What the answer has to know besides what all completions ask for.
struct llama_notes final : request_notes {
  probability_kind probabilities = probability_kind::logprob;  ///< what n_probs lists
  /// Members of the answer that alone are wanted, "a/b" for member b of a; distinct; empty = all.
  std::vector<std::string> response_fields;
};

/// Errors: as parse_completion, in llama-server's names of fields.
[[nodiscard]] engine::result<completion_request> parse_llama_completion(std::string_view body,
                                                                        const completion_limits& limits);
/// Refuses all where the model's vocabulary has no tokens for it.
[[nodiscard]] engine::result<completion_request> parse_infill(std::string_view body,
                                                              const completion_limits& limits);

}  // namespace orcd::net
