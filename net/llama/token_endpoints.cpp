#include "net/llama/token_endpoints.hpp"

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "engine/text/utf8.hpp"
#include "net/completion/completion_fields.hpp"
#include "net/json/json_text.hpp"
#include "net/json/json_value.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::error;
using engine::result;
using engine::token_id;

/// Whose words a request to /tokenize is in.
enum class dialect { llama, vllm, chat };

struct tokenize_request {
  dialect form = dialect::llama;
  std::optional<std::string> text;
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
  bool generation_prompt = true;
};

dialect dialect_of(const json::object& body) {
  if (body.contains("messages")) return dialect::chat;
  return body.contains("prompt") ? dialect::vllm : dialect::llama;
}

/// The member that a flag of this dialect sets; null where there is none.
bool tokenize_request::*flag_of(dialect form, std::string_view name) {
  using r = tokenize_request;
  struct named_flag {
    std::string_view name;
    bool llama, vllm, chat;
    bool r::*to;
  };
  constexpr std::array<named_flag, 6> flags{
      {{"add_special", true, false, false, &r::add_special},
       {"parse_special", true, false, false, &r::parse_special},
       {"with_pieces", true, false, false, &r::with_pieces},
       {"add_special_tokens", false, true, true, &r::add_special},
       {"return_token_strs", false, true, true, &r::with_pieces},
       {"add_generation_prompt", false, false, true, &r::generation_prompt}}};
  for (const auto& flag : flags) {
    const bool here = form == dialect::llama ? flag.llama : form == dialect::vllm ? flag.vllm : flag.chat;
    if (here && flag.name == name) return flag.to;
  }
  return nullptr;
}

/// Takes what is tokenize's own; what is left is a chat's. Refuses other fields of the other dialects.
result<tokenize_request> read_tokenize(json::object& body) {
  tokenize_request out;
  out.form = dialect_of(body);
  out.add_special = out.form == dialect::vllm;
  const std::string_view text = out.form == dialect::llama ? "content" : "prompt";
  json::object rest;
  for (const auto& field : body) {
    const std::string_view name = field.key();
    const auto& value = field.value();
    if (bool tokenize_request::*const flag = flag_of(out.form, name)) {
      if (value.is_null()) continue;
      const auto truth = as_flag(name, value);
      if (!truth) return truth.error();
      if (*truth && out.form == dialect::chat && flag == &tokenize_request::add_special) {
        return refuse_field(name, "must be false: a chat's prompt gets what the model's rules say");
      }
      out.*flag = *truth;
    } else if (out.form == dialect::chat) {
      rest.emplace(field.key(), value);
    } else if (name == "model" && out.form == dialect::vllm) {
      rest.emplace(field.key(), value);
    } else if (value.is_null()) {
      continue;
    } else if (name != text) {
      return unknown_field(name);
    } else if (value.is_string()) {
      out.text = std::string(value.get_string());
    } else {
      return refuse_kind(name, "a string", value);
    }
  }
  if (out.form != dialect::chat && !out.text) return refuse_field(text, "is missing");
  body = std::move(rest);
  return out;
}

/// The fields of a chat, read as /v1/chat/completions reads them.
result<completion_request> read_chat(const json::object& fields, const completion_limits& limits) {
  completion_fields out(completion_kind::chat, limits);
  const auto read = each_member(
      fields, [&out](std::string_view name, const json::value& value) { return out.take(name, value); });
  if (!read) return read.error();
  return std::move(out).finish();
}

/// Refuses the name of another model.
result<void> check_model(const json::object& fields, const completion_limits& limits) {
  const auto* model = fields.if_contains("model");
  if (model == nullptr) return {};
  completion_fields reader(completion_kind::text, limits);
  return reader.take("model", *model);
}

result<std::vector<token_id>> read_detokenize(std::string_view body, const completion_limits& limits) {
  const std::uint32_t vocab = limits.vocab;
  const std::uint32_t tokens_max = limits.lengths.context_tokens;
  const auto tree = read_json_tree(body);
  if (!tree) return tree.error();
  if (const auto served = check_model(*tree, limits); !served) return served.error();
  for (const auto& field : *tree) {
    const bool known = field.key() == "tokens" || field.key() == "model";
    if (!known && !field.value().is_null()) return unknown_field(field.key());
  }
  const auto* ids = find_member(*tree, "tokens");
  if (ids == nullptr) return refuse_field("tokens", "is missing");
  if (!ids->is_array()) return refuse_kind("tokens", "an array", *ids);
  const auto& list = ids->get_array();
  if (list.size() > tokens_max) {
    return refuse_field("tokens", "may have " + std::to_string(tokens_max) +
                                      " tokens, which is what a context holds, it has " +
                                      std::to_string(list.size()));
  }
  std::vector<token_id> out;
  out.reserve(list.size());
  for (const auto& id : list) {
    const auto scalar = scalar_of(id);
    if (!scalar) return refuse_field("tokens", "must hold token ids, one is " + std::string(kind_name(id)));
    const auto number = check_integer("tokens", *scalar, 0, vocab - 1);
    if (!number) return number.error();
    out.push_back(static_cast<token_id>(*number));
  }
  return out;
}

/// The token's text, or a list of its bytes if it is only a part of a character.
void append_piece(std::string& out, const std::string& bytes) {
  if (engine::utf8::valid_bytes(bytes) == bytes.size()) return append_json_string(out, bytes);
  out += '[';
  for (const char c : bytes) {
    if (out.back() != '[') out += ',';
    out += std::to_string(static_cast<unsigned char>(c));
  }
  out += ']';
}

template <class Append>
void append_list(std::string& out, const std::vector<token_id>& tokens, const Append& append) {
  out += '[';
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append(tokens[i]);
  }
  out += ']';
}

std::string bytes_of(token_id token, const engine::tokenizer& tokenizer) {
  std::string bytes;
  tokenizer.append_bytes(token, bytes, true);
  return bytes;
}

std::string write_llama(const std::vector<token_id>& tokens, const tokenize_request& asked,
                        const engine::tokenizer& tokenizer) {
  std::string out = "{\"tokens\":";
  append_list(out, tokens, [&](token_id token) {
    if (!asked.with_pieces) {
      out += std::to_string(token);
      return;
    }
    out += "{\"id\":" + std::to_string(token) + ",\"piece\":";
    append_piece(out, bytes_of(token, tokenizer));
    out += '}';
  });
  return out + ",\"count\":" + std::to_string(tokens.size()) + "}";
}

std::string write_vllm(const std::vector<token_id>& tokens, const tokenize_request& asked,
                       const completion_context& context) {
  std::string out = "{\"count\":" + std::to_string(tokens.size()) +
                    ",\"max_model_len\":" + std::to_string(context.limits.lengths.context_tokens) +
                    ",\"tokens\":";
  append_list(out, tokens, [&](token_id token) { out += std::to_string(token); });
  out += ",\"token_strs\":";
  if (asked.with_pieces) {
    append_list(out, tokens,
                [&](token_id token) { append_json_string(out, bytes_of(token, context.tokenizer)); });
  } else {
    out += "null";
  }
  return out + "}";
}

result<std::vector<token_id>> tokenize(const tokenize_request& asked, const json::object& rest,
                                       const completion_context& context) {
  if (asked.form == dialect::chat) {
    const auto request = read_chat(rest, context.limits);
    if (!request) return request.error();
    const auto prompt = render_chat(*request, context, asked.generation_prompt);
    if (!prompt) return prompt.error();
    return context.chat->encode(*prompt, context.tokenizer, context.limits.parse_special_in_chat);
  }
  if (const auto served = check_model(rest, context.limits); !served) return served.error();
  const std::string_view name = asked.form == dialect::llama ? "content" : "prompt";
  const auto fits = check_length(name, *asked.text, context.limits.lengths.prompt_chars_max);
  if (!fits) return fits.error();
  engine::encode_options options;
  options.add_special = asked.add_special;
  options.parse_special = asked.parse_special;
  return context.tokenizer.encode(*asked.text, options);
}

/// Nullopt where messages have to be rendered and `renders` is false.
std::optional<reply> answer(std::string_view body, const completion_context& context, bool renders) {
  auto tree = read_json_tree(body);
  if (!tree) return make_error_reply(tree.error());
  const auto asked = read_tokenize(*tree);
  if (!asked) return make_error_reply(asked.error());
  if (asked->form == dialect::chat && !renders) return std::nullopt;
  const auto tokens = tokenize(*asked, *tree, context);
  if (!tokens) return make_error_reply(tokens.error());
  return make_json_reply(200, asked->form == dialect::llama ? write_llama(*tokens, *asked, context.tokenizer)
                                                            : write_vllm(*tokens, *asked, context));
}

}  // namespace

reply answer_tokenize(std::string_view body, const completion_context& context) {
  return *answer(body, context, true);
}

std::optional<reply> answer_tokenize_quickly(std::string_view body, const completion_context& context) {
  return answer(body, context, false);
}

reply answer_detokenize(std::string_view body, const completion_context& context) {
  const auto tokens = read_detokenize(body, context.limits);
  if (!tokens) return make_error_reply(tokens.error());
  std::string text;
  append_json_string(text, context.tokenizer.decode(*tokens));
  return make_json_reply(200, "{\"content\":" + text + ",\"prompt\":" + text + "}");
}

reply answer_apply_template(std::string_view body, const completion_context& context) {
  auto tree = read_json_tree(body);
  if (!tree) return make_error_reply(tree.error());
  bool generation_prompt = true;
  constexpr std::string_view field = "add_generation_prompt";
  if (const auto* flag = find_member(*tree, field)) {
    const auto truth = as_flag(field, *flag);
    if (!truth) return make_error_reply(truth.error());
    generation_prompt = *truth;
  }
  tree->erase(field);
  const auto request = read_chat(*tree, context.limits);
  if (!request) return make_error_reply(request.error());
  const auto prompt = render_chat(*request, context, generation_prompt);
  if (!prompt) return make_error_reply(prompt.error());
  std::string out = "{\"prompt\":";
  append_json_string(out, prompt->text);
  return make_json_reply(200, out + "}");
}

}  // namespace orcd::net
