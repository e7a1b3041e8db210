// The rules by which a pre-tokenizer cuts text, and the functions that follow them.
#pragma once

#include "engine/text/unicode_tables.hpp"

namespace orcd::engine {

/// A rule for cutting. Each covers the whole text: text between matches becomes a piece, too.
enum class split_rule {
  // Patterns that find words, numbers, punctuation and space.
  gpt2,          ///< ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` with case-sensitive contractions
  llama3,        ///< one optional character before letters, \p{N}{1,3}
  qwen2,         ///< llama3 with \p{N} one by one
  qwen35,        ///< qwen2 with marks counted as letters
  ufakzeka,      ///< qwen2 without contractions
  seed_coder,    ///< qwen2 whose punctuation takes no newlines along
  jais2,         ///< llama3 whose whitespace is cut at powers of two
  exaone_moe,    ///< qwen2 with words that go on over single spaces
  o200k,         ///< words by case, contractions kept with their word, \p{N}{1,3}
  o200k_digits,  ///< o200k with \p{N} one by one
  tekken,        ///< o200k_digits without contractions
  kimi_k2,       ///< o200k with runs of \p{Han} apart
  deepseek3,     ///< letters and marks, punctuation and symbols; numbers are left between
  spark,         ///< deepseek3 with newlines one by one
  // Patterns that isolate matches of one kind.
  digit_each,               ///< \p{N}
  digit_run,                ///< \p{N}+
  digits_3,                 ///< \p{N}{1,3}
  split_digit_each,         ///< the package's Digits, one by one
  split_digit_run,          ///< the same, in runs
  ascii_digits_3,           ///< [0-9][0-9][0-9]
  byte_digit_run,           ///< runs of bytes whose stand-in in byte-level spelling is \p{N}
  digit_groups,             ///< \p{N}{1,3} counted from the end of a run
  decimal_groups,           ///< \d{1,3}(?=(?:\d{3})*\b)
  decimal_group_starts,     ///< (?=(\d{3})+(?!\d))
  punctuation_run,          ///< [\p{P}$+<=>^~|]+
  split_punctuation_each,   ///< the package's Punctuation, one by one
  split_punctuation_run,    ///< the same, in runs
  spaced_letters,           ///< \s?\p{L}+
  spaced_punctuation,       ///< \s?\p{P}+
  spaced_cased_letters,     ///< \s?[A-Za-z...]+: DeepSeek's letters of scripts with case
  spaced_wide_punctuation,  ///< \s?[!-/:-~...]+: DeepSeek's punctuation, ASCII letters too
  unpunctuated,             ///< ` ?[^(\s|.,!?...)]+`: BLOOM's words
  newline_each,             ///< [\r\n]
  trailing_space,           ///< \s+$
  ideographs_hangul,        ///< runs of U+0800 to U+9FA5, and Hangul syllables
  ideographs_kana,          ///< runs of ideographs and kana
  hangul,                   ///< runs of Hangul syllables and compatibility letters
  bopomofo,                 ///< runs of Bopomofo letters
  wide_punctuation,         ///< runs of CJK punctuation
  asian,                    ///< runs of characters of scripts without spaces, and of Hangul
  chameleon_sentinel,       ///< <sentinel:[0-9]+>
  chameleon_image,          ///< (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z
  chameleon_space,          ///< [\t\n]|    |  (four spaces, or two)
  line_feed_run,            ///< \n+
  // Places at which a piece starts.
  newline_start,        ///< every run of \r?\n
  metaspace_start,      ///< every U+2581
  metaspace_run_start,  ///< every run of U+2581
};

/// The end of the piece that starts at p, which is not the end. `note` is the scanner's own: nullptr before
/// the first piece of a text, then what it knows about the text behind p.
using split_scanner = const char* (*)(const char* p, const char* end, const unicode_table& table,
                                      const char*& note);

}  // namespace orcd::engine
