// SentencePiece, which GGUF calls "llama": merges the adjacent pair whose joint token has the highest score,
// the leftmost on ties. n log n in the length of the text. Source: Kudo and Richardson 2018 (BPE mode).
#pragma once

#include "engine/text/vocab_tokenizer.hpp"

namespace orcd::engine {

struct spm_settings {
  std::vector<float> scores;  ///< one per token, none of them NaN
  bool space_prefix = true;   ///< one space before every plain text
  token_id unknown = -1;      ///< for a byte without a <0xHH> token
};

class spm_tokenizer final : public vocab_tokenizer {
 public:
  spm_tokenizer(vocabulary vocab, spm_settings settings, vocab_rules rules);

 private:
  class spm_run;
  std::unique_ptr<run> start() const override;

  spm_settings settings_;
};

}  // namespace orcd::engine
