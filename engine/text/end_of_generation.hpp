// Which tokens end a generation, found by their well-known texts: files often mark them wrongly or name only
// one of several.
#pragma once

#include <vector>

#include "engine/text/vocabulary.hpp"

namespace orcd::engine {

/// Makes the tokens with well-known end texts control tokens and returns them. A normal token is taken
/// only when it is spelled <|...|>: "</s>" is an ordinary word of Qwen's vocabulary.
[[nodiscard]] std::vector<token_id> mark_end_tokens(vocabulary& vocab);

/// In a harmony vocabulary (gpt-oss: <|return|> and <|call|> exist) <|end|> only ends a message: removes it
/// from `ends` and makes the tokens that frame messages visible in the output. To be called after the
/// special-token matcher was built, so that they stay special in the input.
void apply_harmony(vocabulary& vocab, std::vector<token_id>& ends);

/// The best guess at EOS among `ends` when the file names none, or -1.
[[nodiscard]] token_id likely_eos(const vocabulary& vocab, const std::vector<token_id>& ends);

}  // namespace orcd::engine
