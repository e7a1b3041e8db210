// WordPiece, which GGUF calls "bert": text is cleaned and, for an uncased vocabulary, lowered and stripped of
// accents. Each word becomes the longest tokens from the left or, if that fails, one unknown token. A word's
// first token is spelled with U+2581 in front, the others without. Linear in the text, quadratic in a word of
// at most 100 characters. Source: Devlin et al. 1810.04805; Wu et al. 1609.08144.
#pragma once

#include "engine/text/vocab_tokenizer.hpp"

namespace orcd::engine {

struct wordpiece_settings {
  token_id unknown = -1;  ///< must be in the vocabulary
  bool uncased = true;    ///< lower case and no accents
};

class wordpiece_tokenizer final : public vocab_tokenizer {
 public:
  wordpiece_tokenizer(vocabulary vocab, wordpiece_settings settings, vocab_rules rules);

 private:
  class wordpiece_run;
  std::unique_ptr<run> start() const override;

  wordpiece_settings settings_;
};

}  // namespace orcd::engine
