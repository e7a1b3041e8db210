// worker-orcd-inspect tokenize and detokenize.
#include <boost/json.hpp>
#include <istream>
#include <memory>

#include "app/inspect/inspect.hpp"
#include "engine/text/tokenizer.hpp"
#include "engine/text/utf8_buffer.hpp"

namespace orcd::app {
namespace {

namespace json = boost::json;
using engine::errc;
using engine::error;
using engine::result;
using engine::token_id;

/// A tokenizer and, for a GGUF, the file that the tokenizer may point into.
struct source {
  std::unique_ptr<engine::gguf_file> file;
  std::unique_ptr<engine::tokenizer> tokens;
};

result<source> open_source(const inspect_arguments& arguments) {
  const std::string& model = arguments.model;
  source out;
  if (model.ends_with(".json")) {
    if (!arguments.tokenizer_pre.empty()) {
      return error{errc::invalid_request, "--tokenizer-pre is for GGUF files", "arguments"};
    }
    const auto text = read_input_file(model);
    if (!text) return text.error();
    auto tokens = engine::make_json_tokenizer(*text);
    if (!tokens) return tokens.error();
    out.tokens = std::move(*tokens);
    return out;
  }
  auto file = engine::gguf_file::open(model);
  if (!file) return file.error();
  out.file = std::make_unique<engine::gguf_file>(std::move(*file));
  const auto beside = engine::find_tokenizer_file(*out.file, out.file->location(), {});
  if (!beside) return beside.error();
  auto tokens = engine::make_tokenizer(*out.file, *beside, arguments.tokenizer_pre);
  if (!tokens) return tokens.error();
  out.tokens = std::move(*tokens);
  return out;
}

result<std::string> text_of(const inspect_arguments& arguments, std::istream& in) {
  if (arguments.text) return *arguments.text;
  if (arguments.input) return read_input_file(*arguments.input);
  return read_input(in, "standard input");
}

result<std::vector<token_id>> ids_of(const inspect_arguments& arguments, std::istream& in) {
  std::string joined;
  for (const std::string& word : arguments.ids) joined += word + " ";
  if (!arguments.ids.empty()) return parse_token_ids(joined);
  const auto text = text_of(arguments, in);
  if (!text) return text.error();
  return parse_token_ids(*text);
}

}  // namespace

result<std::string> inspect_tokenize(const inspect_arguments& arguments, std::istream& in) {
  const auto from = open_source(arguments);
  if (!from) return from.error();
  const auto text = text_of(arguments, in);
  if (!text) return text.error();
  const engine::encode_options options{arguments.special, arguments.special};
  const std::vector<token_id> ids = from->tokens->encode(*text, options);
  if (!arguments.json) {
    std::string line;
    for (const token_id id : ids) line.append(line.empty() ? "" : " ").append(std::to_string(id));
    return line + "\n";
  }
  json::array numbers;
  json::array pieces;
  for (const token_id id : ids) {
    numbers.emplace_back(id);
    pieces.emplace_back(engine::valid_utf8(from->tokens->piece(id)));
  }
  const json::object out{{"tokenizer", from->tokens->kind()},
                         {"vocabulary", from->tokens->vocab_size()},
                         {"bytes", text->size()},
                         {"count", ids.size()},
                         {"ids", std::move(numbers)},
                         {"pieces", std::move(pieces)}};
  return json::serialize(out) + "\n";
}

result<std::string> inspect_detokenize(const inspect_arguments& arguments, std::istream& in) {
  const auto from = open_source(arguments);
  if (!from) return from.error();
  const auto ids = ids_of(arguments, in);
  if (!ids) return ids.error();
  const std::uint32_t size = from->tokens->vocab_size();
  for (const token_id id : *ids) {
    if (static_cast<std::uint32_t>(id) >= size) {
      return error{errc::invalid_request,
                   "token id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(size),
                   "ids"};
    }
  }
  const std::string text = from->tokens->decode(*ids, arguments.special);
  if (!arguments.json) return text + "\n";
  const json::object out{{"tokenizer", from->tokens->kind()},
                         {"count", ids->size()},
                         {"bytes", text.size()},
                         {"text", engine::valid_utf8(text)}};
  return json::serialize(out) + "\n";
}

}  // namespace orcd::app
