// Text to token ids and back. One immutable object per model, safe to use from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/text/text_range.hpp"

namespace orcd::engine {

struct encode_options {
  bool add_special =
      true;  ///< add BOS and EOS as the model's own rules say; no BOS to text that begins with it
  bool parse_special = true;  ///< recognise the text of control tokens ("<|im_end|>")
  /// Parts of the text, in order, in which no control token begins, ends or lies, also with parse_special.
  std::span<const text_range> plain{};
};

/// The tokens that a model for filling gaps expects around the parts of a text; -1 where there is none.
struct infill_tokens {
  token_id prefix = -1;
  token_id suffix = -1;
  token_id middle = -1;
  token_id repository = -1;  ///< before the name of a repository whose files follow
  token_id file = -1;        ///< before the name of each file
  [[nodiscard]] bool usable() const noexcept { return prefix >= 0 && suffix >= 0 && middle >= 0; }
};

class tokenizer {
 public:
  virtual ~tokenizer() = default;

  /// Token ids of UTF-8 text. Invalid UTF-8 is accepted: every byte is kept where the vocabulary has byte
  /// tokens. Linear or n log n in the length of the text, whatever the text.
  [[nodiscard]] virtual std::vector<token_id> encode(std::string_view text,
                                                     const encode_options& = {}) const = 0;

  /// Appends the exact bytes of one token to `out`. They may end inside a code point. Control tokens
  /// append nothing unless `render_special`. Ids outside the vocabulary append nothing.
  virtual void append_bytes(token_id token, std::string& out, bool render_special = false) const = 0;

  /// Whole-sequence decode: append_bytes of each, then the family's rule for the leading space.
  [[nodiscard]] virtual std::string decode(std::span<const token_id> tokens,
                                           bool render_special = true) const = 0;

  [[nodiscard]] virtual std::uint32_t vocab_size() const noexcept = 0;
  /// The vocabulary entry as the file spells it ("Ġhello", "<0x0A>"); empty when out of range.
  [[nodiscard]] virtual std::string_view piece(token_id token) const noexcept = 0;
  /// Whether generation stops at this token (eos, eot, eom and the like).
  [[nodiscard]] virtual bool is_end_of_generation(token_id token) const noexcept = 0;
  /// Whether the token is control, unused or absent, and so prints nothing.
  [[nodiscard]] virtual bool is_control(token_id token) const noexcept = 0;
  [[nodiscard]] virtual std::span<const token_id> end_of_generation() const noexcept = 0;
  [[nodiscard]] virtual token_id bos() const noexcept = 0;  ///< -1 when the model has none
  [[nodiscard]] virtual token_id eos() const noexcept = 0;  ///< -1 when the model has none
  [[nodiscard]] virtual infill_tokens infill() const noexcept { return {}; }
  /// "gguf-bpe/qwen2", "gguf-spm", "tokenizer.json/o200k": for /health and inspect.
  [[nodiscard]] virtual std::string_view kind() const noexcept = 0;
};

/// The tokenizer inside a GGUF file (tokenizer.ggml.*). `pre` counts instead of the file's tokenizer.ggml.pre
/// unless it is empty; it is refused for a tokenizer that cuts no words before it merges.
[[nodiscard]] result<std::unique_ptr<tokenizer>> make_gguf_tokenizer(const gguf_file& file,
                                                                     std::string_view pre = {});

/// A Hugging Face tokenizer.json (BPE models), given its whole text; at most 64 MiB.
[[nodiscard]] result<std::unique_ptr<tokenizer>> make_json_tokenizer(std::string_view json);

/// A tokenizer.json that is used with the model file.
struct tokenizer_file {
  std::string path;
  std::string text;
};

/// Chooses the tokenizer.json: `path` when given; else none where the GGUF has its own tokenizer; else the
/// tokenizer.json beside the model, where there is one. `model_location` is as gguf_file::open takes it.
[[nodiscard]] result<std::optional<tokenizer_file>> find_tokenizer_file(const gguf_file& file,
                                                                        std::string_view model_location,
                                                                        std::string_view path);

/// The tokenizer of `beside` or, if that is nullopt, the GGUF's own, for which `pre` is as above.
[[nodiscard]] result<std::unique_ptr<tokenizer>> make_tokenizer(const gguf_file& file,
                                                                const std::optional<tokenizer_file>& beside,
                                                                std::string_view pre = {});

}  // namespace orcd::engine
