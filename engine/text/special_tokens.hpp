// Finds the texts of special tokens: leftmost, then longest, in one pass over the text. Source: Hugging Face
// added-token semantics.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/text/byte_trie.hpp"
#include "engine/text/text_range.hpp"

namespace orcd::engine {

struct special_token {
  token_id id = -1;
  bool special = true;       ///< skipped when the caller wants special tokens left as text
  bool lstrip = false;       ///< swallows the whitespace before it
  bool rstrip = false;       ///< swallows the whitespace after it
  bool single_word = false;  ///< only where no word character touches it
};

class special_tokens {
 public:
  /// Longer texts are not recognised: bounds the search at one position.
  static constexpr std::size_t max_bytes = 1'024;

  /// An empty or over-long text, and a second token of the same text, are ignored.
  void add(std::string_view text, special_token token);
  [[nodiscard]] bool empty() const noexcept { return tokens_.empty(); }

  /// Calls plain(std::string_view) and token(token_id) in the order of the text; plain is never empty.
  /// Special ones have no byte in `left`, parts of the text in order.
  template <class Plain, class Token>
  void partition(std::string_view text, bool parse_special, const Plain& plain, const Token& token,
                 std::span<const text_range> left = {}) const {
    std::size_t from = 0;
    for (std::size_t at = 0; at < text.size();) {
      const match m = find(text, at, parse_special, left);
      if (m.token == nullptr) break;
      const std::size_t start = m.token->lstrip ? skip_back(text, from, m.at) : m.at;
      if (start > from) plain(text.substr(from, start - from));
      token(m.token->id);
      from = m.token->rstrip ? skip_forward(text, m.at + m.size) : m.at + m.size;
      at = from;
    }
    if (from < text.size()) plain(text.substr(from));
  }

 private:
  struct match {
    const special_token* token = nullptr;
    std::size_t at = 0;
    std::size_t size = 0;
  };
  /// Drops the parts that end before the match from `left`.
  [[nodiscard]] match find(std::string_view text, std::size_t from, bool parse_special,
                           std::span<const text_range>& left) const;
  [[nodiscard]] static std::size_t skip_back(std::string_view text, std::size_t from, std::size_t at);
  [[nodiscard]] static std::size_t skip_forward(std::string_view text, std::size_t at);

  byte_trie trie_;
  std::vector<std::int32_t> token_at_;  // by trie node: an index into tokens_, or -1
  std::vector<special_token> tokens_;
};

}  // namespace orcd::engine
