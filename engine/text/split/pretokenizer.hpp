// Cuts text into the words that byte-level BPE works on. Hand-written scanners that give exactly the pieces
// of the regular expressions in Hugging Face tokenizer files, in linear time and without a regex engine. An
// invalid UTF-8 byte counts as a character of no class. Source: the `Split` patterns of the models'
// tokenizer.json, as the `tokenizers` package (Oniguruma) matches them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/text/split/split_rule.hpp"

namespace orcd::engine {

class pretokenizer {
 public:
  /// Each stage cuts the pieces of the one before; without a stage the text stays whole.
  explicit pretokenizer(const std::vector<split_rule>& stages);

  /// Calls emit(std::string_view) for every piece from left to right; no piece is empty.
  template <class Emit>
  void split(std::string_view text, const Emit& emit) const {
    if (!text.empty()) split_from(0, text, emit);
  }

 private:
  template <class Emit>
  void split_from(std::size_t stage, std::string_view text, const Emit& emit) const {
    if (stage == scanners_.size()) return emit(text);
    const char* p = text.data();
    const char* const end = p + text.size();
    const char* note = nullptr;
    while (p != end) {
      const char* const next = scanners_[stage](p, end, *table_, note);
      split_from(stage + 1, {p, static_cast<std::size_t>(next - p)}, emit);
      p = next;
    }
  }

  std::vector<split_scanner> scanners_;
  const unicode_table* table_;
};

/// How the tokens of a vocabulary are spelled, and what else a value of `tokenizer.ggml.pre` stands for.
struct pretokenizer_preset {
  std::vector<split_rule> stages;
  bool ignore_merges = false;  ///< a word that is a token is encoded as that token, without merges
  bool add_bos = false;        ///< default when the file does not say
  bool nfc = false;            ///< the family's own tokenizer normalizes to NFC
  bool metaspace = false;      ///< tokens are spelled as SentencePiece spells them, not byte by byte
};
[[nodiscard]] std::optional<pretokenizer_preset> find_preset(std::string_view pre);
/// "default gpt-2 ...": for the message that refuses an unknown name.
[[nodiscard]] std::string_view preset_names() noexcept;

/// The rule of a `Split` regular expression of tokenizer.json, matched by its exact text.
struct known_pattern {
  std::string_view name;  ///< "qwen2"
  split_rule rule;
};
[[nodiscard]] std::optional<known_pattern> find_pattern(std::string_view regex);

}  // namespace orcd::engine
