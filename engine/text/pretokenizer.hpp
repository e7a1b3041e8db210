// Cuts text into the words that byte-level BPE works on. Hand-written scanners that give exactly the pieces
// of the regular expressions in Hugging Face tokenizer files, in linear time and without a regex engine. An
// invalid UTF-8 byte counts as a character of no class. Source: the `Split` patterns of the models'
// tokenizer.json.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "engine/text/unicode_tables.hpp"

namespace orcd::engine {

/// A rule for cutting. Each covers the whole text: text between matches becomes a piece, too.
enum class split_rule {
  gpt2,             ///< ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` with case-sensitive contractions
  llama3,           ///< one optional character before letters, \p{N}{1,3}
  qwen2,            ///< llama3 with \p{N} one by one
  qwen35,           ///< qwen2 with marks counted as letters
  o200k,            ///< words by case, contractions kept with their word, \p{N}{1,3}
  tekken,           ///< o200k without contractions, \p{N} one by one
  digit_each,       ///< isolates every \p{N}
  digit_run,        ///< isolates \p{N}+
  ascii_digits_3,   ///< isolates [0-9][0-9][0-9]
  punctuation_run,  ///< isolates [\p{P}$+<=>^~|]+
  metaspace_start,  ///< a piece starts at every U+2581
};

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
  using scanner = const char* (*)(const char* p, const char* end, const unicode_table& table);

  template <class Emit>
  void split_from(std::size_t stage, std::string_view text, const Emit& emit) const {
    if (stage == scanners_.size()) return emit(text);
    const char* p = text.data();
    const char* const end = p + text.size();
    while (p != end) {
      const char* const next = scanners_[stage](p, end, *table_);
      split_from(stage + 1, {p, static_cast<std::size_t>(next - p)}, emit);
      p = next;
    }
  }

  std::vector<scanner> scanners_;
  const unicode_table* table_;
};

/// The settings that a value of `tokenizer.ggml.pre` stands for.
struct pretokenizer_preset {
  std::vector<split_rule> stages;
  bool ignore_merges = false;  ///< a word that is a token is encoded as that token, without merges
  bool add_bos = false;        ///< default when the file does not say
  bool nfc = false;            ///< the family's own tokenizer normalizes to NFC
};
[[nodiscard]] std::optional<pretokenizer_preset> find_preset(std::string_view pre);
/// "default, gpt-2, ...": for the message that refuses an unknown name.
[[nodiscard]] std::string_view preset_names() noexcept;

/// The rule of a `Split` regular expression of tokenizer.json, matched by its exact text.
struct known_pattern {
  std::string_view name;  ///< "qwen2"
  split_rule rule;
};
[[nodiscard]] std::optional<known_pattern> find_pattern(std::string_view regex);

}  // namespace orcd::engine
