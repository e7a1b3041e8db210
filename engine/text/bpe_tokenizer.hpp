// Byte-pair encoding in its two dialects: byte-level (GPT-2, Llama 3, Qwen, o200k) and the
// SentencePiece-like one with byte fallback that tokenizer.json files of Llama 2 and Phi-3 use.
#pragma once

#include <atomic>
#include <memory>

#include "engine/text/merge_table.hpp"
#include "engine/text/split/pretokenizer.hpp"
#include "engine/text/vocab_tokenizer.hpp"

namespace orcd::engine {

/// When a space is put before a plain text (U+2581 in sentencepiece spelling).
enum class space_prefix : std::uint8_t { never, always, unless_spaced, first_unless_spaced };

struct bpe_settings {
  std::vector<split_rule> stages;
  special_tokens normalized_specials;  ///< special tokens that are looked for after normalization
  spelling how = spelling::byte_level;
  bool ignore_merges = false;  ///< a word that is a token is encoded as that token, without merges
  bool nfc = false;
  space_prefix prefix = space_prefix::never;
  token_id unknown = -1;      ///< for a character with neither token nor byte tokens
  bool fuse_unknown = false;  ///< a run of unknown characters is one token
};

class bpe_tokenizer final : public vocab_tokenizer {
 public:
  bpe_tokenizer(vocabulary vocab, merge_table merges, bpe_settings settings, vocab_rules rules);

 private:
  class bpe_run;
  std::unique_ptr<run> start() const override;

  // Whether the merges alone turn a token's bytes into that token. Computed once per token, on first use, by
  // any thread: all threads would write the same value.
  enum class reach : std::uint8_t { untried = 0, yes, no };

  merge_table merges_;
  bpe_settings settings_;
  pretokenizer words_;
  std::unique_ptr<std::atomic<reach>[]> reachable_;
};

}  // namespace orcd::engine
