#include "net/token_endpoints.hpp"

#include <optional>
#include <string>
#include <vector>

#include "engine/text/utf8_buffer.hpp"
#include "net/field_checks.hpp"
#include "net/json_text.hpp"
#include "net/json_value.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::error;
using engine::result;
using engine::token_id;

struct tokenize_request {
  std::optional<std::string> content;
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
};

result<bool> read_flag(std::string_view name, const json::value& value) {
  const auto scalar = scalar_of(value);
  if (!scalar) return refuse_field(name, "must be true or false, it is " + std::string(kind_name(value)));
  return check_flag(name, *scalar);
}

result<tokenize_request> read_tokenize(std::string_view body) {
  const auto tree = read_json_tree(body);
  if (!tree) return tree.error();
  tokenize_request out;
  for (const auto& field : *tree) {
    const std::string_view name = field.key();
    const auto& value = field.value();
    bool* const flag = name == "add_special"     ? &out.add_special
                       : name == "parse_special" ? &out.parse_special
                       : name == "with_pieces"   ? &out.with_pieces
                                                 : nullptr;
    if (flag == nullptr && name != "content") return unknown_field(name);
    if (value.is_null()) continue;
    if (flag != nullptr) {
      const auto truth = read_flag(name, value);
      if (!truth) return truth.error();
      *flag = *truth;
    } else if (value.is_string()) {
      out.content = std::string(value.get_string());
    } else {
      return refuse_field(name, "must be a string, it is " + std::string(kind_name(value)));
    }
  }
  if (!out.content) return refuse_field("content", "is missing");
  return out;
}

result<std::vector<token_id>> read_detokenize(std::string_view body, std::uint32_t vocab) {
  const auto tree = read_json_tree(body);
  if (!tree) return tree.error();
  for (const auto& field : *tree) {
    if (field.key() != "tokens") return unknown_field(field.key());
  }
  const auto* ids = tree->if_contains("tokens");
  if (ids == nullptr || ids->is_null()) return refuse_field("tokens", "is missing");
  if (!ids->is_array()) {
    return refuse_field("tokens", "must be an array, it is " + std::string(kind_name(*ids)));
  }
  std::vector<token_id> out;
  for (const auto& id : ids->get_array()) {
    const auto scalar = scalar_of(id);
    if (!scalar) return refuse_field("tokens", "must hold token ids, one is " + std::string(kind_name(id)));
    const auto number = check_integer("tokens", *scalar, 0, vocab - 1);
    if (!number) return number.error();
    out.push_back(static_cast<token_id>(*number));
  }
  return out;
}

std::string text_of(std::string_view bytes) {
  engine::utf8_buffer buffer;
  std::string text = buffer.push(bytes);
  return text + buffer.finish();
}

/// Text, or the bytes of a token that is only a part of a character.
void append_piece(std::string& out, const std::string& bytes) {
  if (text_of(bytes) == bytes) return append_json_string(out, bytes);
  out += '[';
  for (const char c : bytes) {
    if (out.back() != '[') out += ',';
    out += std::to_string(static_cast<unsigned char>(c));
  }
  out += ']';
}

}  // namespace

reply answer_tokenize(std::string_view body, const engine::tokenizer& tokenizer, std::uint32_t chars_max) {
  const auto asked = read_tokenize(body);
  if (!asked) return make_error_reply(asked.error());
  const auto fits = check_length("content", *asked->content, chars_max);
  if (!fits) return make_error_reply(fits.error());
  engine::encode_options options;
  options.add_special = asked->add_special;
  options.parse_special = asked->parse_special;
  const auto tokens = tokenizer.encode(*asked->content, options);
  std::string out = "{\"tokens\":[";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    if (asked->with_pieces) {
      std::string bytes;
      tokenizer.append_bytes(tokens[i], bytes, true);
      out += "{\"id\":" + std::to_string(tokens[i]) + ",\"piece\":";
      append_piece(out, bytes);
      out += '}';
    } else {
      out += std::to_string(tokens[i]);
    }
  }
  return make_json_reply(200, out + "],\"count\":" + std::to_string(tokens.size()) + "}");
}

reply answer_detokenize(std::string_view body, const engine::tokenizer& tokenizer) {
  const auto tokens = read_detokenize(body, tokenizer.vocab_size());
  if (!tokens) return make_error_reply(tokens.error());
  std::string out = "{\"content\":";
  append_json_string(out, text_of(tokenizer.decode(*tokens)));
  return make_json_reply(200, out + "}");
}

}  // namespace orcd::net
