// A tokenizer with a token that begins texts, for tests of how prompts are made.
#pragma once

#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net::test {

/// One token per byte, and a BOS (256) where special tokens are added or its text begins the prompt.
class bos_tokenizer final : public engine::tokenizer {
 public:
  std::vector<engine::token_id> encode(std::string_view text,
                                       const engine::encode_options& o) const override {
    std::vector<engine::token_id> out;
    if (o.add_special) out.push_back(256);
    const bool own = o.plain.empty() || o.plain.front().from >= 3;
    if (o.parse_special && own && text.starts_with("<s>")) {
      out.push_back(256);
      text.remove_prefix(3);
    }
    const auto rest = letters_.encode(text, o);
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  }
  void append_bytes(engine::token_id t, std::string& out, bool s) const override {
    letters_.append_bytes(t, out, s);
  }
  std::string decode(std::span<const engine::token_id> t, bool s) const override {
    return letters_.decode(t, s);
  }
  std::uint32_t vocab_size() const noexcept override { return 257; }
  std::string_view piece(engine::token_id) const noexcept override { return {}; }
  bool is_end_of_generation(engine::token_id) const noexcept override { return false; }
  bool is_control(engine::token_id t) const noexcept override { return t == 256; }
  std::span<const engine::token_id> end_of_generation() const noexcept override { return {}; }
  engine::token_id bos() const noexcept override { return 256; }
  engine::token_id eos() const noexcept override { return -1; }
  std::string_view kind() const noexcept override { return "letters"; }

 private:
  letter_tokenizer letters_;
};

}  // namespace orcd::net::test
