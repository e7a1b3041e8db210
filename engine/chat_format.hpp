// How a model wants its messages: its chat template and the texts of its special tokens. Immutable; any
// thread. Source: seed 002 (chat completions), model-facts: BOS and injection.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/chat/chat_template.hpp"
#include "engine/chat/output_format.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

/// What a template may print for the special tokens: bos_token, eos_token, unk_token, pad_token; empty where
/// the file names none. Error: model_load_failed.
[[nodiscard]] result<boost::json::object> special_token_texts(const gguf_file& file);

/// tokenizer.chat_template, or empty. Error: model_load_failed.
[[nodiscard]] result<std::string> chat_template_text(const gguf_file& file);

class chat_format {
 public:
  /// Error: invalid_request, as chat_template::compile.
  [[nodiscard]] static result<chat_format> make(std::string_view template_text,
                                                boost::json::object special_tokens);

  /// The same special tokens with another template.
  [[nodiscard]] result<chat_format> with_template(std::string_view template_text) const;

  /// `variables` as transformers' apply_chat_template has them: messages, tools, documents,
  /// add_generation_prompt and the caller's own.
  [[nodiscard]] result<std::string> render(boost::json::object variables) const;
  [[nodiscard]] bool mentions(std::string_view variable) const noexcept {
    return template_.mentions(variable);
  }

  /// SHA-256 of the template's text, in hexadecimal digits.
  [[nodiscard]] const std::string& digest() const noexcept { return digest_; }

  /// How a model with this template writes calls and reasoning.
  [[nodiscard]] const output_format& output() const noexcept { return output_; }

  /// Token ids of a rendered prompt. Its special tokens are recognised; BOS is added as the model's rules
  /// say, unless the template has printed it.
  [[nodiscard]] std::vector<token_id> encode(std::string_view prompt, const tokenizer& vocabulary) const;

 private:
  chat_format(chat_template compiled, std::string_view text, boost::json::object special_tokens);

  chat_template template_;
  boost::json::object special_tokens_;
  output_format output_;
  std::string bos_;
  std::string digest_;
};

}  // namespace orcd::engine
