// The base of every tokenizer over a vocabulary: special tokens, BOS and EOS, decoding.
#pragma once

#include "engine/text/special_tokens.hpp"
#include "engine/text/tokenizer.hpp"
#include "engine/text/vocabulary.hpp"

namespace orcd::engine {

/// The rules around a vocabulary, read from the file that it came from.
struct vocab_rules {
  special_tokens specials;
  std::vector<token_id> prefix;  ///< before every text when add_special (BOS)
  std::vector<token_id> suffix;  ///< after every text when add_special (EOS)
  std::vector<token_id> end_of_generation;
  token_id bos = -1;
  token_id eos = -1;
  bool one_bos = true;  ///< no BOS is added to text that begins with it
  infill_tokens infill;
  bool strip_leading_space = false;  ///< decode() drops the space that encode() put in front
  std::string kind;
};

class vocab_tokenizer : public tokenizer {
 public:
  std::vector<token_id> encode(std::string_view text, const encode_options& options) const final;
  void append_bytes(token_id token, std::string& out, bool render_special) const final;
  std::string decode(std::span<const token_id> tokens, bool render_special) const final;

  std::uint32_t vocab_size() const noexcept final { return vocab_.size(); }
  std::string_view piece(token_id token) const noexcept final { return vocab_.piece(token); }
  bool is_end_of_generation(token_id token) const noexcept final;
  bool is_control(token_id token) const noexcept final;
  std::span<const token_id> end_of_generation() const noexcept final { return rules_.end_of_generation; }
  token_id bos() const noexcept final { return rules_.bos; }
  token_id eos() const noexcept final { return rules_.eos; }
  infill_tokens infill() const noexcept final { return rules_.infill; }
  std::string_view kind() const noexcept final { return rules_.kind; }

 protected:
  vocab_tokenizer(vocabulary vocab, vocab_rules rules);

  /// State of one encode() call, so that encoding is const and reuses its buffers.
  class run {
   public:
    virtual ~run() = default;
    /// Appends the tokens of text without special tokens; never empty. It begins at `offset` of the text that
    /// `options` are for.
    virtual void plain(std::string_view text, std::size_t offset, const encode_options& options,
                       std::vector<token_id>& out) = 0;
  };
  [[nodiscard]] virtual std::unique_ptr<run> start() const = 0;

  vocabulary vocab_;
  vocab_rules rules_;
};

}  // namespace orcd::engine
