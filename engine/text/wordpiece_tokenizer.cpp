#include "engine/text/wordpiece_tokenizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/text/nfc.hpp"
#include "engine/text/unicode_tables.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine {
namespace {

constexpr std::string_view word_mark = "\xE2\x96\x81";
constexpr std::size_t word_characters_max = 100;  // longer words are unknown

struct code_range {
  char32_t first, last;
};
/// Code points of ideographs, each of which is a word.
constexpr std::array<code_range, 8> ideographs{{{0x4E00, 0x9FFF},
                                                {0x3400, 0x4DBF},
                                                {0x20000, 0x2A6DF},
                                                {0x2A700, 0x2B73F},
                                                {0x2B740, 0x2B81F},
                                                {0x2B920, 0x2CEAF},
                                                {0xF900, 0xFAFF},
                                                {0x2F800, 0x2FA1F}}};

bool is_ideograph(char32_t code) {
  return std::any_of(ideographs.begin(), ideographs.end(),
                     [code](const code_range& r) { return code >= r.first && code <= r.last; });
}

bool is_space(char32_t code) {
  return (unicode_table::instance().classes(code) & class_space) != 0;
}

bool is_punctuation(char32_t code) {
  return (unicode_table::instance().classes(code) & class_split_punctuation) != 0;
}

/// Whether a code point is dropped: controls, formats and private ones are not text; line ends and tabs count
/// as spaces.
bool is_dropped(char32_t code) {
  if (code == '\t' || code == '\n' || code == '\r') return false;
  if (code == 0 || code == 0xFFFD || code == utf8::invalid) return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(code))) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: return true;
    default: return false;
  }
}

}  // namespace

class wordpiece_tokenizer::wordpiece_run final : public run {
 public:
  explicit wordpiece_run(const wordpiece_tokenizer& t) : t_(t) {}

  void plain(std::string_view text, std::size_t, const encode_options&, std::vector<token_id>& out) override {
    const char* const end = text.data() + text.size();
    for (const char* p = text.data(); p != end;) {
      const utf8::decoded d = utf8::decode(p, end);
      p += d.size;
      if (is_dropped(d.code)) continue;
      const bool alone = is_ideograph(d.code);
      if (alone) end_word(out);
      t_.settings_.uncased ? take_folded(d.code, out) : take(d.code, out);
      if (alone) end_word(out);
    }
    end_word(out);
  }

 private:
  /// Takes a code point without accents, in lower case.
  void take_folded(char32_t code, std::vector<token_id>& out) {
    parts_.clear();
    append_decomposed(code, parts_);
    for (const std::int32_t part : parts_) {
      if (utf8proc_category(part) == UTF8PROC_CATEGORY_MN) continue;
      take(static_cast<char32_t>(utf8proc_tolower(part)), out);
    }
  }

  void take(char32_t code, std::vector<token_id>& out) {
    if (is_space(code)) return end_word(out);
    const bool alone = is_punctuation(code);
    if (alone) end_word(out);
    if (characters_ == 0) word_ = word_mark;
    utf8::append(word_, code);
    ++characters_;
    if (alone) end_word(out);
  }

  void end_word(std::vector<token_id>& out) {
    if (characters_ == 0) return;
    const std::size_t before = out.size();
    if (characters_ > word_characters_max || !spell(out)) {
      out.resize(before);
      out.push_back(t_.settings_.unknown);
    }
    characters_ = 0;
  }

  /// The longest tokens from the left; false where there is none.
  bool spell(std::vector<token_id>& out) const {
    const std::string_view word = word_;
    for (std::size_t at = 0; at < word.size();) {
      // Inside a word U+2581 is a character of the text, and no continuation token begins with it.
      if (at > 0 && word.substr(at).starts_with(word_mark)) return false;
      std::size_t end = std::min(word.size(), at + t_.vocab_.longest());
      // A token of the mark alone spells no part of the word.
      const std::size_t least = at == 0 ? word_mark.size() : at;
      token_id found = -1;
      for (; end > least; --end) {
        const bool cut = end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80;
        if (cut) continue;
        found = t_.vocab_.find(word.substr(at, end - at));
        if (found >= 0) break;
      }
      if (found < 0) return false;
      out.push_back(found);
      at = end;
    }
    return true;
  }

  const wordpiece_tokenizer& t_;
  std::string word_;  // with the mark in front
  std::size_t characters_ = 0;
  std::vector<std::int32_t> parts_;  // of one character
};

wordpiece_tokenizer::wordpiece_tokenizer(vocabulary vocab, wordpiece_settings settings, vocab_rules rules)
    : vocab_tokenizer(std::move(vocab), std::move(rules)), settings_(settings) {
  ORCD_ENSURE(vocab_.contains(settings_.unknown));
}

std::unique_ptr<vocab_tokenizer::run> wordpiece_tokenizer::start() const {
  return std::make_unique<wordpiece_run>(*this);
}

}  // namespace orcd::engine
