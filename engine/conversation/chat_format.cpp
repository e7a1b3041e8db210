#include "engine/conversation/chat_format.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/base/sha256.hpp"
#include "engine/conversation/generic_messages.hpp"
#include "engine/text/utf8_buffer.hpp"

namespace orcd::engine {
namespace {

struct named_token {
  const char* key;
  const char* variable;
};
constexpr std::array<named_token, 4> named_tokens{{{"tokenizer.ggml.bos_token_id", "bos_token"},
                                                   {"tokenizer.ggml.eos_token_id", "eos_token"},
                                                   {"tokenizer.ggml.unknown_token_id", "unk_token"},
                                                   {"tokenizer.ggml.padding_token_id", "pad_token"}}};

// Source: llama.cpp, which takes it for files without a template.
constexpr std::string_view chatml_text =
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%}\n"
    "  {{- '<|im_start|>assistant\n' -}}\n"
    "{%- endif -%}";
constexpr std::string_view chatml_end = "<|im_end|>";

bool ends_generation(const tokenizer& vocabulary, std::string_view text) {
  const auto ends = vocabulary.end_of_generation();
  return std::any_of(ends.begin(), ends.end(), [&](token_id end) {
    std::string written;
    vocabulary.append_bytes(end, written, true);
    return written == text;
  });
}

}  // namespace

result<boost::json::object> special_token_texts(const gguf_file& file) {
  const auto tokens = file.get_strings("tokenizer.ggml.tokens");
  if (!tokens) return tokens.error();
  boost::json::object out;
  for (const auto& [key, variable] : named_tokens) {
    const auto id = file.get_unsigned(key, tokens->size());
    if (!id) return id.error();
    out[variable] = *id < tokens->size() ? valid_utf8((*tokens)[*id]) : std::string();
  }
  return out;
}

result<std::string> chat_template_text(const gguf_file& file) {
  const auto text = file.get_string("tokenizer.chat_template", "");
  if (!text) return text.error();
  return std::string(*text);
}

result<std::string> tool_template_text(const gguf_file& file) {
  const auto text = file.get_string("tokenizer.chat_template.tool_use", "");
  if (!text) return text.error();
  return std::string(*text);
}

std::string_view chatml_template_text() noexcept {
  return chatml_text;
}

chat_format::chat_format(chat_template compiled, std::string_view text, boost::json::object special_tokens)
    : template_(std::move(compiled)),
      special_tokens_(std::move(special_tokens)),
      output_(detect_output_format(text)),
      text_(text) {
  // Asked only where it matters: a template that knows neither calls nor their results shows none.
  const auto mentions_any = [&](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (output_.calls != call_format::none || mentions_any("tool_calls") || mentions_any("observation")) {
    habits_ = learn_habits(template_, special_tokens_);
  } else {
    habits_.no_calls = true;
  }
  habits_.written_as = output_.calls;
  habits_.compact_arguments = output_.calls == call_format::harmony;
  digest_ = sha256_of(text);
  if (const auto* bos = special_tokens_.if_contains("bos_token")) {
    if (bos->is_string()) bos_ = std::string(bos->get_string());
  }
}

result<chat_format> chat_format::make(std::string_view template_text, boost::json::object special_tokens) {
  auto compiled = chat_template::compile(template_text);
  if (!compiled) return compiled.error();
  return chat_format(std::move(*compiled), template_text, std::move(special_tokens));
}

chat_format chat_format::chatml(boost::json::object special_tokens, const tokenizer& vocabulary) {
  auto compiled = chat_template::compile(chatml_text);
  ORCD_ENSURE(compiled.has_value());
  chat_format out(std::move(*compiled), chatml_text, std::move(special_tokens));
  out.stands_in_ = true;
  out.output_.text_end = !ends_generation(vocabulary, chatml_end);
  return out;
}

void chat_format::adapt(boost::json::array& messages, const boost::json::array& tools, bool parallel) const {
  if (!tells_tools()) return adapt_messages(messages, habits_);
  if (!tools.empty()) return write_tools_as_text(messages, tools, parallel);
  if (habits_.no_calls && output_.calls == call_format::none) return write_calls_as_text(messages, parallel);
  adapt_messages(messages, habits_);
}

result<void> chat_format::add_tool_template(std::string_view template_text) {
  auto made = make(template_text, special_tokens_);
  if (!made) return made.error();
  digest_ = sha256_of(digest_ + made->digest());
  tools_ = std::make_shared<const chat_format>(std::move(*made));
  return {};
}

result<chat_format> chat_format::with_template(std::string_view template_text) const {
  return make(template_text, special_tokens_);
}

std::optional<result<chat_format>> chat_format::with_template_quickly(std::string_view template_text) const {
  auto compiled = chat_template::compile_quickly(template_text);
  if (!compiled) return std::nullopt;
  if (!*compiled) return compiled->error();
  return chat_format(std::move(**compiled), template_text, special_tokens_);
}

result<rendered_prompt> chat_format::render(const boost::json::object& variables) const {
  std::vector<text_range> callers;
  auto text = template_.render(variables, std::chrono::system_clock::now(), special_tokens_, &callers);
  if (!text) return text.error();
  return rendered_prompt{std::move(*text), std::move(callers)};
}

std::optional<result<rendered_prompt>> chat_format::render_quickly(
    const boost::json::object& variables) const {
  std::vector<text_range> callers;
  auto text =
      template_.render_quickly(variables, std::chrono::system_clock::now(), special_tokens_, &callers);
  if (!text) return std::nullopt;
  if (!*text) return text->error();
  return rendered_prompt{std::move(**text), std::move(callers)};
}

std::vector<token_id> chat_format::encode(const rendered_prompt& prompt, const tokenizer& vocabulary,
                                          bool parse_special) const {
  encode_options options;
  if (!parse_special) options.plain = prompt.callers;
  const bool own = options.plain.empty() || options.plain.front().from >= bos_.size();
  options.add_special = bos_.empty() || !own || !prompt.text.starts_with(bos_);
  return vocabulary.encode(prompt.text, options);
}

}  // namespace orcd::engine
