// Character classes of Unicode 16.0, as the regular expressions of the pre-tokenizers name them. The ranges
// are generated (tools/gen_unicode_tables.py) and expanded into a two-stage table on first use; lookups are
// then two loads, from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace orcd::engine {

/// Bits of a code point's class. `upper` and `lower` are the two letter groups of the o200k pattern:
/// letters without case and marks are in both.
enum unicode_class : std::uint16_t {
  class_letter = 0x001,       ///< \p{L}
  class_number = 0x002,       ///< \p{N}
  class_mark = 0x004,         ///< \p{M}
  class_space = 0x008,        ///< \s
  class_upper = 0x010,        ///< [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
  class_lower = 0x020,        ///< [\p{Ll}\p{Lm}\p{Lo}\p{M}]
  class_punctuation = 0x040,  ///< \p{P}
  class_symbol = 0x080,       ///< \p{S}
  class_word = 0x100,         ///< \w
  class_nfc = 0x200,          ///< NFC may change or move it
  class_han = 0x400,          ///< \p{Han}
  class_decimal = 0x800,      ///< \p{Nd}
  /// What the `tokenizers` package's own Punctuation and Digits find: ASCII punctuation and the \p{P} of an
  /// older Unicode, and the \p{N} of a newer one.
  class_split_punctuation = 0x1000,
  class_split_digit = 0x2000,
};

/// All code points from `first` up to the next range's have these classes.
struct class_range {
  std::uint32_t first;
  std::uint16_t classes;
};
extern const class_range unicode_ranges[];
extern const std::size_t unicode_range_count;

class unicode_table {
 public:
  /// The one table of the process.
  [[nodiscard]] static const unicode_table& instance();

  /// The classes of any value; 0 above U+10FFFF.
  [[nodiscard]] std::uint16_t classes(char32_t code) const noexcept {
    if (code < 0x80) return ascii_[code];
    if (code > 0x10FFFF) return 0;
    return blocks_[block_of_[code / block_size] * block_size + code % block_size];
  }

 private:
  unicode_table();
  static constexpr std::size_t block_size = 128;
  std::array<std::uint16_t, 0x80> ascii_{};
  std::array<std::uint16_t, 0x110000 / block_size> block_of_{};
  std::vector<std::uint16_t> blocks_;  // distinct blocks, about 120 KiB
};

}  // namespace orcd::engine
