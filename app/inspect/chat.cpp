// worker-orcd-inspect chat: the prompt that a chat template makes of messages.
#include <boost/json.hpp>

#include "app/inspect/inspect.hpp"
#include "engine/conversation/chat_format.hpp"
#include "engine/gguf/gguf_file.hpp"
#include "engine/text/utf8_buffer.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;
using engine::errc;
using engine::error;
using engine::result;

constexpr std::string_view gguf_magic = "GGUF";

/// A template, and the texts of the special tokens for it.
struct source {
  std::string text;
  json::object tokens;
};

result<source> from_gguf(const std::string& location) {
  const auto file = engine::gguf_file::open(location);
  if (!file) return file.error();
  auto text = engine::chat_template_text(*file);
  if (!text) return text.error();
  auto tokens = engine::special_token_texts(*file);
  if (!tokens) return tokens.error();
  if (text->empty()) {
    const auto vocabulary = file->get_strings("tokenizer.ggml.tokens");
    if (!vocabulary || vocabulary->empty()) {
      return error{errc::invalid_request, location + ": has no tokenizer.chat_template", "chat_template"};
    }
    *text = engine::chatml_template_text();  // as the worker serves it
  }
  return source{std::move(*text), std::move(*tokens)};
}

/// Takes FILE as a GGUF file if its name or its first bytes say so; else as a file that holds a template.
result<source> open_source(const std::string& location) {
  if (location.starts_with("shm:") || location.starts_with("file:") || location.ends_with(".gguf")) {
    return from_gguf(location);
  }
  auto text = read_input_file(location);
  if (!text) return text.error();
  if (text->starts_with(gguf_magic)) return from_gguf(location);
  return source{std::move(*text), {}};
}

result<json::value> read_json(const std::string& path, std::istream* in) {
  const auto text = in != nullptr ? read_input(*in, path) : read_input_file(path);
  if (!text) return text.error();
  boost::system::error_code code;
  json::value value = json::parse(*text, code);
  if (code) return error{errc::invalid_request, path + ": is not JSON: " + code.message(), "input"};
  return value;
}

/// The messages themselves, or an object of variables that has them.
result<json::object> read_variables(const inspect_arguments& arguments, std::istream& in) {
  auto messages =
      arguments.messages ? read_json(*arguments.messages, nullptr) : read_json("standard input", &in);
  if (!messages) return messages.error();
  json::object out;
  if (messages->is_object()) {
    out = std::move(messages->get_object());
  } else {
    out["messages"] = std::move(*messages);
  }
  if (!out.contains("messages") || !out.at("messages").is_array()) {
    return error{errc::invalid_request,
                 "the messages must be a JSON array, or an object with the key messages", "messages"};
  }
  if (arguments.tools) {
    auto tools = read_json(*arguments.tools, nullptr);
    if (!tools) return tools.error();
    if (!tools->is_array()) return error{errc::invalid_request, "the tools must be a JSON array", "tools"};
    out["tools"] = std::move(*tools);
  }
  out.emplace("tools", nullptr);
  out.emplace("documents", nullptr);
  out.emplace("add_generation_prompt", true);
  if (arguments.generation_prompt) out["add_generation_prompt"] = *arguments.generation_prompt;
  return out;
}

}  // namespace

result<std::string> inspect_chat(const inspect_arguments& arguments, std::istream& in) {
  auto from = open_source(arguments.model);
  if (!from) return from.error();
  const auto format = engine::chat_format::make(from->text, std::move(from->tokens));
  if (!format) return format.error();
  auto variables = read_variables(arguments, in);
  if (!variables) return variables.error();
  auto prompt = format->render(*variables);
  if (!prompt) return prompt.error();
  if (!arguments.json) return std::move(prompt->text) + "\n";
  const json::object out{{"bytes", prompt->text.size()}, {"prompt", engine::valid_utf8(prompt->text)}};
  return json::serialize(out) + "\n";
}

}  // namespace orcd::app
