// A vocabulary given as a list: 256 tokens of one byte each, then pieces, then control tokens, of which the
// last ends the generation.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/text/tokenizer.hpp"

namespace orcd::test {

class piece_tokenizer final : public engine::tokenizer {
 public:
  explicit piece_tokenizer(const std::vector<std::string>& pieces = {},
                           const std::vector<std::string>& control = {"<end>"}) {
    for (int byte = 0; byte < 256; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
    texts_.insert(texts_.end(), pieces.begin(), pieces.end());
    first_control_ = static_cast<engine::token_id>(texts_.size());
    texts_.insert(texts_.end(), control.begin(), control.end());
    end_ = {static_cast<engine::token_id>(texts_.size() - 1)};
  }

  [[nodiscard]] engine::token_id end() const { return end_.front(); }
  [[nodiscard]] const std::string& text(engine::token_id token) const {
    return texts_[static_cast<std::size_t>(token)];
  }

  std::vector<engine::token_id> encode(std::string_view text, const engine::encode_options&) const override {
    std::vector<engine::token_id> out;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return out;
  }
  void append_bytes(engine::token_id token, std::string& out, bool special) const override {
    if (token >= 0 && token < (special ? static_cast<engine::token_id>(vocab_size()) : first_control_))
      out += text(token);
  }
  std::string decode(std::span<const engine::token_id> tokens, bool special) const override {
    std::string out;
    for (const auto token : tokens) append_bytes(token, out, special);
    return out;
  }
  std::uint32_t vocab_size() const noexcept override { return static_cast<std::uint32_t>(texts_.size()); }
  std::string_view piece(engine::token_id token) const noexcept override { return text(token); }
  bool is_end_of_generation(engine::token_id token) const noexcept override { return token == end(); }
  bool is_control(engine::token_id token) const noexcept override { return token >= first_control_; }
  std::span<const engine::token_id> end_of_generation() const noexcept override { return end_; }
  engine::token_id bos() const noexcept override { return -1; }
  engine::token_id eos() const noexcept override { return end(); }
  std::string_view kind() const noexcept override { return "pieces"; }

 private:
  std::vector<std::string> texts_;
  engine::token_id first_control_ = 0;
  std::vector<engine::token_id> end_;
};

/// Pieces that cross the boundaries of JSON and of characters.
inline std::vector<std::string> json_pieces() {
  return {"{\"",   "\":",     "\": ",    "\": \"", "\",",   "\", \"",  "\"}",      "\"}]", "},{\"", "}]}",
          "[{\"",  "[]",      "{}",      "true",   "false", "null",    "tru",      "al",   "name",  "value",
          "kind",  "\n  ",    "\n",      "  ",     ", ",    "],",      "10",       "00",   "0.",    "e+",
          "-1",    "12:",     "T0",      "-0",     "狐",    "é",       "\xE7\x8B", "\x90", "\\n",   "\\\"",
          "\\u00", "\\ud83d", "\\ude00", "abc",    "ab\"",  "a\",\"b", "x\\",      "😀",    "😀😀",    "}}"};
}

}  // namespace orcd::test
