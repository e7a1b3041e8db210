// Log probabilities as JSON, in the forms of the two completion endpoints. Pure. Private to net/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/sampling/logprobs.hpp"
#include "engine/text/tokenizer.hpp"
#include "net/completion/completion_request.hpp"

namespace orcd::net {

/// A token of the output.
struct logprob_entry {
  std::vector<engine::token_logprob> logprobs;  ///< its own, then those of the most likely tokens
  std::size_t first_byte = 0;                   ///< where its bytes begin in the output
  std::size_t text_offset = 0;                  ///< the same in code points
};

/// A token of a prompt.
struct prompt_value {
  std::vector<engine::token_logprob> logprobs;  ///< its own, then those of the most likely tokens
  std::uint32_t rank = 0;                       ///< its own among all tokens; 0: not known
};

/// vLLM's form: [null,{"5":{"logprob","rank","decoded_token"},...},...], where null is the first token, which
/// has no value.
[[nodiscard]] std::string render_prompt_values(std::span<const prompt_value> values,
                                               const engine::tokenizer& vocabulary);

/// With `tokens_as_ids` a token is "token_id:5" instead of its text, in both.
/// [{"token","logprob","bytes","top_logprobs"}...].
[[nodiscard]] std::string render_token_list(std::span<const logprob_entry> entries,
                                            const engine::tokenizer& vocabulary, bool tokens_as_ids = false);

/// chat: {"content":[...],"refusal":null}; text: {"tokens":[...],"token_logprobs":[...],...}.
[[nodiscard]] std::string render_logprobs(completion_kind kind, std::span<const logprob_entry> entries,
                                          const engine::tokenizer& vocabulary, bool tokens_as_ids = false);

/// What llama-server's lists hold.
enum class probability_kind {
  logprob,  ///< of the model's raw logits
  sampled,  ///< the probability with which a token was drawn
  greedy,   ///< the same where the most likely token was taken: 1 for that and 0 for others
};

/// llama-server's form: [{"id","token","bytes","logprob","top_logprobs":[...]},...], or with "prob" and
/// "top_probs".
[[nodiscard]] std::string render_probabilities(std::span<const logprob_entry> entries,
                                               const engine::tokenizer& vocabulary,
                                               probability_kind kind = probability_kind::logprob);

}  // namespace orcd::net
