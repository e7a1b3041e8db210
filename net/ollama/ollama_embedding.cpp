#include "net/ollama/ollama_embedding.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <utility>

#include "net/json/json_text.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/ollama/model_tags.hpp"
#include "net/ollama/ollama_answer.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;

constexpr std::string_view of_embed = "input";
constexpr std::string_view of_embeddings = "prompt";
/// What else a request without a text says is judged as if it had this one.
constexpr std::string_view some_text = ".";

/// A body in the names of /v1/embeddings.
struct translated {
  json::object fields;
  bool cuts = true;  ///< of a text that is too long as much is taken as fits
};

/// Nothing is taken of a text that is empty, and of no texts.
result<void> take_texts(std::string_view field, const json::value& value, translated& out) {
  if (value == json::value("") || (value.is_array() && value.get_array().empty())) return {};
  const bool list = value.is_array() && field == of_embed;
  if (!value.is_string() && !list) return refuse_kind(field, "a string", value);
  if (list) {
    for (const json::value& text : value.get_array()) {
      if (!text.is_string()) return refuse_kind(field, "a string or an array of strings", text);
    }
  }
  out.fields["input"] = value;
  return {};
}

bool is_known(std::string_view name, std::string_view text_field) noexcept {
  constexpr std::array<std::string_view, 4> both{"model", "keep_alive", "options", "timeout_ms"};
  if (std::find(both.begin(), both.end(), name) != both.end() || name == text_field) return true;
  return text_field == of_embed && (name == "truncate" || name == "dimensions");
}

result<void> take_field(std::string_view name, const json::value& value, std::string_view text_field,
                        const pooled_limits& limits, translated& out) {
  if (!is_known(name, text_field)) return unknown_field(name);
  if (value.is_null()) return {};
  if (name == text_field) return take_texts(name, value, out);
  if (name == "model") {
    const auto asked = as_text(name, value);
    if (!asked) return asked.error();
    out.fields["model"] = without_tag(limits.served, {}, *asked);
    return {};
  }
  if (name == "truncate") {
    const auto truth = as_flag(name, value);
    if (!truth) return truth.error();
    out.cuts = *truth;
    return {};
  }
  // How a model is loaded, and how text is made.
  if (name == "keep_alive") return {};
  if (name == "options") return value.is_object() ? result<void>() : refuse_kind(name, "an object", value);
  out.fields[name] = value;
  return {};
}

result<translated> translate(std::string_view body, const pooled_limits& limits,
                             std::string_view text_field) {
  translated out;
  const auto read = read_body(body, [&](std::string_view name, const json::value& value) {
    return take_field(name, value, text_field, limits, out);
  });
  if (!read) return read.error();
  return out;
}

result<embedding_request> parse(std::string_view body, const pooled_limits& limits,
                                std::string_view text_field) {
  auto words = translate(body, limits, text_field);
  if (!words) return words.error();
  const bool silent = !words->fields.contains("input");
  if (silent) words->fields["input"] = some_text;
  auto out = read_embedding(words->fields, limits);
  if (!out) return rename_field(out.error(), "input", text_field);
  if (silent) return refuse_field(text_field, "is missing");
  if (words->cuts) out->cut.tokens = -1;
  return out;
}

}  // namespace

result<embedding_request> parse_ollama_embed(std::string_view body, const pooled_limits& limits) {
  return parse(body, limits, of_embed);
}

result<embedding_request> parse_ollama_embeddings(std::string_view body, const pooled_limits& limits) {
  return parse(body, limits, of_embeddings);
}

bool embeds_nothing(std::string_view body, const pooled_limits& limits, std::string_view text_field) {
  auto words = translate(body, limits, text_field);
  if (!words || words->fields.contains("input")) return false;
  words->fields["input"] = some_text;
  return read_embedding(words->fields, limits).has_value();
}

std::string write_ollama_embed(const embedding_options& options, const pooled_outcome& outcome) {
  std::string list = "[";
  for (const auto& values : outcome.values) {
    if (list.size() > 1) list += ',';
    append_embedding(list, options, *values);
  }
  list += ']';
  const auto& stats = outcome.stats;
  std::string out;
  json_object answer(out);
  answer.text("model", options.model)
      .raw("embeddings", list)
      .integer("total_duration", nanoseconds_of(stats.queue_ms + stats.prefill_ms + stats.decode_ms))
      .integer("load_duration", 0)
      .integer("prompt_eval_count", outcome.tokens_in);
  answer.close();
  return out;
}

std::string write_ollama_embeddings(const embedding_options&, const pooled_outcome& outcome) {
  std::string out = R"({"embedding":)";
  append_numbers(out, *outcome.values.front());
  return out + "}";
}

}  // namespace orcd::net
