// How a model wants its messages: its chat template and the texts of its special tokens. Immutable; any
// thread.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/chat/output_format.hpp"
#include "engine/conversation/message_habits.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/jinja/chat_template.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

/// The values of a template's variables bos_token, eos_token, unk_token and pad_token: the texts of the
/// special tokens, empty where the file names none. Error: model_load_failed.
[[nodiscard]] result<boost::json::object> special_token_texts(const gguf_file& file);

/// tokenizer.chat_template, or empty. Error: model_load_failed.
[[nodiscard]] result<std::string> chat_template_text(const gguf_file& file);
/// tokenizer.chat_template.tool_use, which a file may have besides for conversations with tools, or empty.
/// Error: model_load_failed.
[[nodiscard]] result<std::string> tool_template_text(const gguf_file& file);

/// ChatML, which stands in for a template that a file does not have.
[[nodiscard]] std::string_view chatml_template_text() noexcept;

struct rendered_prompt {
  std::string text;
  std::vector<text_range> callers;  ///< the parts that are not the template's words but a request's
};

class chat_format {
 public:
  /// Error: invalid_request, as chat_template::compile.
  [[nodiscard]] static result<chat_format> make(std::string_view template_text,
                                                boost::json::object special_tokens);
  /// ChatML, for a model whose file has no template. Where the vocabulary has no <|im_end|> that ends the
  /// generation, its text ends an answer.
  [[nodiscard]] static chat_format chatml(boost::json::object special_tokens, const tokenizer& vocabulary);

  /// Has another template for conversations with tools. Error: as make().
  [[nodiscard]] result<void> add_tool_template(std::string_view template_text);
  /// What conversations with tools are rendered by: that template, or this one.
  [[nodiscard]] const chat_format& for_tools() const noexcept { return tools_ ? *tools_ : *this; }

  /// The same special tokens with another template.
  [[nodiscard]] result<chat_format> with_template(std::string_view template_text) const;
  /// As chat_template::compile_quickly: nothing when it takes longer than about a millisecond.
  [[nodiscard]] std::optional<result<chat_format>> with_template_quickly(
      std::string_view template_text) const;

  /// `variables` as transformers' apply_chat_template has them: messages, tools, documents,
  /// add_generation_prompt and the caller's own.
  [[nodiscard]] result<rendered_prompt> render(const boost::json::object& variables) const;
  /// As chat_template::render_quickly: nothing when it takes longer than about a millisecond.
  [[nodiscard]] std::optional<result<rendered_prompt>> render_quickly(
      const boost::json::object& variables) const;
  [[nodiscard]] bool mentions(std::string_view variable) const noexcept {
    return template_.mentions(variable);
  }

  /// Whether it is chatml().
  [[nodiscard]] bool stands_in() const noexcept { return stands_in_; }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }
  [[nodiscard]] const boost::json::object& special_tokens() const noexcept { return special_tokens_; }
  /// SHA-256 of the template's text, in hexadecimal digits; of both, where there is one for tools.
  [[nodiscard]] const std::string& digest() const noexcept { return digest_; }

  /// How a model with this template writes calls and reasoning.
  [[nodiscard]] const output_format& output() const noexcept { return output_; }

  /// Whether a request's tools are told in text, because the template reads none (generic_messages.hpp).
  [[nodiscard]] bool tells_tools() const noexcept { return !mentions("tools"); }
  /// Brings messages into the form that the template can take. `tools` are the request's, of which several
  /// may be called at once with `parallel`.
  void adapt(boost::json::array& messages, const boost::json::array& tools = {}, bool parallel = true) const;

  /// Token ids of a rendered prompt. Special tokens are recognised in what the template wrote, with
  /// `parse_special` in the request's parts too; BOS is added as the model's rules say, unless the template
  /// has printed it.
  [[nodiscard]] std::vector<token_id> encode(const rendered_prompt& prompt, const tokenizer& vocabulary,
                                             bool parse_special = false) const;

 private:
  chat_format(chat_template compiled, std::string_view text, boost::json::object special_tokens);

  chat_template template_;
  boost::json::object special_tokens_;
  output_format output_;
  message_habits habits_;
  std::string bos_;
  std::string text_;
  std::string digest_;
  bool stands_in_ = false;
  std::shared_ptr<const chat_format> tools_;  ///< null: there is no other template for tools
};

}  // namespace orcd::engine
