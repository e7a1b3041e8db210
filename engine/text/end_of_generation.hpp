// Which tokens end a generation, found by their well-known texts: files often mark them wrongly or name only
// one of several.
#pragma once

#include <span>
#include <vector>

#include "engine/text/vocabulary.hpp"

namespace orcd::engine {

/// Makes the tokens with well-known end texts control tokens and returns them. A normal token is taken
/// only when it is spelled <|...|>: "</s>" is an ordinary word of Qwen's vocabulary.
[[nodiscard]] std::vector<token_id> mark_end_tokens(vocabulary& vocab);

/// Gemma 4's tokenizer: what ends an answer is a control token there, and "</s>" ordinary text, a tag of
/// HTML, whatever types the file gives them. To be called before the vocabulary is made.
void settle_gemma4(std::span<token_entry> tokens);
/// Whether this text ends no answer in Gemma 4's tokenizer, though the file names it as an end.
[[nodiscard]] bool is_gemma4_text(std::string_view piece) noexcept;

/// In a harmony vocabulary (gpt-oss: <|return|> and <|call|> exist) <|end|> only ends a message: removes it
/// from `ends` and makes the tokens that frame messages visible in the output. To be called after the
/// special-token matcher was built, so that they stay special in the input.
void apply_harmony(vocabulary& vocab, std::vector<token_id>& ends);

/// The best guess at EOS among `ends` when the file names none, or -1.
[[nodiscard]] token_id likely_eos(const vocabulary& vocab, const std::vector<token_id>& ends);

}  // namespace orcd::engine
