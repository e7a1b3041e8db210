// A tokenizer of one token per byte, for tests of net/ that need no vocabulary.
#pragma once

#include "engine/text/tokenizer.hpp"

namespace orcd::net::test {

class letter_tokenizer : public engine::tokenizer {
 public:
  std::vector<engine::token_id> encode(std::string_view text, const engine::encode_options&) const override {
    std::vector<engine::token_id> out;
    for (const char c : text) out.push_back(static_cast<unsigned char>(c));
    return out;
  }
  void append_bytes(engine::token_id token, std::string& out, bool) const override {
    if (token >= 0 && token < 256) out += static_cast<char>(token);
  }
  std::string decode(std::span<const engine::token_id> tokens, bool) const override {
    std::string out;
    for (const auto token : tokens) append_bytes(token, out, true);
    return out;
  }
  std::uint32_t vocab_size() const noexcept override { return 257; }
  std::string_view piece(engine::token_id) const noexcept override { return {}; }
  bool is_end_of_generation(engine::token_id token) const noexcept override { return token == 256; }
  bool is_control(engine::token_id token) const noexcept override { return token == 256; }
  std::span<const engine::token_id> end_of_generation() const noexcept override { return end_; }
  engine::token_id bos() const noexcept override { return -1; }
  engine::token_id eos() const noexcept override { return 256; }
  std::string_view kind() const noexcept override { return "letters"; }

 private:
  std::vector<engine::token_id> end_{256};
};

}  // namespace orcd::net::test
