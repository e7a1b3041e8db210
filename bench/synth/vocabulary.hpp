// Tokenizers of the true size for models with random weights: the small test vocabularies, filled up with
// every short lower-case word, so that ordinary text takes about four characters a token and loading
// costs what it costs with a real vocabulary.
#pragma once

#include <cstdint>

#include "engine/base/error.hpp"
#include "test/support/gguf_writer.hpp"

namespace orcd::bench {

/// The splitter of a byte-level BPE, or SentencePiece.
enum class vocabulary_kind { qwen2, gpt_4o, sentencepiece };

/// Adds the tokenizer.ggml.* keys for `tokens` tokens and, for a BPE, at most `merges` merges. The error
/// (invalid_request) says how many tokens the tokenizer needs at least, or that there are no more words.
[[nodiscard]] engine::result<void> add_tokenizer(test::gguf_writer& header, vocabulary_kind kind,
                                                 std::uint64_t tokens, std::uint64_t merges);

}  // namespace orcd::bench
