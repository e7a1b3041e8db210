// A vocabulary as a trie of bytes in one array, in the order of a walk, so that everything below a forbidden
// prefix is skipped with one jump. Immutable except for masks that are computed once and kept; any thread.
// Control tokens, and those spelled <|...|>, are stored under token_mark and their text, so that text cannot
// be mistaken for them; other tokens that look like a tag ("<tool_call>", "[ARGS]") are stored both as marks
// and as text.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/grammar/program.hpp"
#include "engine/grammar/wide_tokens.hpp"

namespace orcd::engine {
class tokenizer;
}

namespace orcd::engine::grammar {

class token_table {
 public:
  token_table(const tokenizer& vocabulary, std::uint32_t rows);

  [[nodiscard]] std::uint32_t nodes() const noexcept { return static_cast<std::uint32_t>(bytes_.size()); }
  [[nodiscard]] unsigned char byte(std::uint32_t node) const noexcept { return bytes_[node]; }
  /// The node after the last one below `node`. Node 0 is the root.
  [[nodiscard]] std::uint32_t end(std::uint32_t node) const noexcept { return ends_[node]; }
  /// The tokens whose bytes end at the node.
  [[nodiscard]] std::span<const token_id> tokens(std::uint32_t node) const noexcept {
    return {ids_.data() + first_id_[node], ids_.data() + first_id_[node + 1]};
  }
  [[nodiscard]] std::size_t words() const noexcept { return end_mask_.size(); }
  [[nodiscard]] const mask_words& end_of_generation() const noexcept { return end_mask_; }
  /// A token's bytes in the trie; `marked` chooses for a token that is stored both ways.
  [[nodiscard]] std::string spelling(token_id token, bool marked) const;
  [[nodiscard]] bool has_text(token_id token) const noexcept;
  [[nodiscard]] bool has_marked(token_id token) const noexcept;
  [[nodiscard]] bool contains(token_id token) const noexcept {
    return token >= 0 && static_cast<std::size_t>(token) < texts_.size();
  }
  /// Whether a token has exactly this text under token_mark.
  [[nodiscard]] bool is_token(std::string_view text) const noexcept;

  /// The tokens that the body of a string allows: the same for every program, so that they are computed once.
  [[nodiscard]] const wide_tokens& string_body() const;
  /// Adds the tokens of `string_body().within` that have at most `most` characters.
  void add_string_body(std::uint32_t most, mask_words& out) const;

  [[nodiscard]] wide_tokens find_wide(std::span<const state> states, state_id from) const;
  /// A number that no other table has, for caches.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 private:
  enum class place : std::uint8_t { nowhere, text, mark, both };
  struct key {
    std::string_view text;
    token_id id;
  };
  void build(std::vector<key>& keys);

  std::vector<unsigned char> bytes_;
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> first_id_;
  std::vector<token_id> ids_;
  std::vector<std::string> texts_;  ///< each token's text, without the mark
  std::vector<place> places_;
  mask_words end_mask_;
  std::uint64_t number_ = 0;

  mutable std::once_flag string_once_;
  mutable wide_tokens string_;
};

void allow(mask_words& mask, std::span<const token_id> tokens) noexcept;

}  // namespace orcd::engine::grammar
