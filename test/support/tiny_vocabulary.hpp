// The vocabularies of the tiny models.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "test/support/gguf_writer.hpp"

namespace orcd::test {

struct tiny_vocabulary {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;  ///< 1 normal, 2 unknown, 3 control, 5 unused, 6 byte
  std::vector<float> scores;        ///< SentencePiece only
  std::vector<std::string> merges;  ///< byte-level BPE only
  bool wordpiece = false;
  std::int32_t bos = -1;
  std::int32_t eos = -1;
};

/// The 256 byte tokens (ids 0..255 in byte order), some English merges, then <|endoftext|>,
/// <|im_start|>, <|im_end|>.
[[nodiscard]] tiny_vocabulary make_bpe_vocabulary();

/// <unk>, <s>, </s>, <0x00>..<0xFF>, single characters and pieces with scores, then the ChatML tokens.
[[nodiscard]] tiny_vocabulary make_spm_vocabulary();

/// [PAD], [UNK], [CLS], [SEP], [MASK], then letters, digits, punctuation and pieces, at the beginning of a
/// word and inside it.
[[nodiscard]] tiny_vocabulary make_wordpiece_vocabulary();

/// Appends the control tokens that stand for media in prompts of projectors in test/data/media.
void add_picture_tokens(tiny_vocabulary& vocabulary);

/// Appends unused tokens until there are `size`; smaller sizes change nothing.
void pad_vocabulary(tiny_vocabulary& vocabulary, std::uint32_t size);

/// Writes the tokenizer.ggml.* keys. `pre` names the splitter of a byte-level BPE.
void add_vocabulary(gguf_writer& writer, const tiny_vocabulary& vocabulary, const std::string& pre);

}  // namespace orcd::test
