#include "net/pooled/pooled_request.hpp"

#include <limits>
#include <utility>

#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/models/model_names.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;
using engine::token_id;

result<std::string> read_text(std::string_view field, const json::value& value, const pooled_limits& limits) {
  const auto text = as_text(field, value);
  if (!text) return text.error();
  if (text->empty()) return refuse_field(field, "must not be an empty string");
  if (const auto fits = check_length(field, *text, limits.lengths.prompt_chars_max); !fits)
    return fits.error();
  return std::string(*text);
}

result<void> check_count(std::string_view field, std::size_t count) {
  if (count == 0) return refuse_field(field, "must not be empty");
  if (count <= pooled_inputs_max) return {};
  return refuse_field(
      field, "may have " + std::to_string(pooled_inputs_max) + " entries, it has " + std::to_string(count));
}

/// Takes a field that both requests have; false where it is none of them.
template <class Request>
result<bool> take_common(std::string_view field, const json::value& value, const pooled_limits& limits,
                         Request& out) {
  if (field == "model") {
    const auto name = as_text(field, value);
    if (!name) return name.error();
    if (const auto known = check_model_name(limits.served, *name); !known) return known.error();
    return true;
  }
  if (field == "user") {
    if (const auto text = as_text(field, value); !text) return text.error();
    return true;
  }
  if (field != "timeout_ms") return false;
  const auto number = as_integer(field, value, 1, limits.lengths.timeout_ms_max());
  if (!number) return number.error();
  out.timeout = std::chrono::milliseconds(*number);
  return true;
}

result<std::vector<token_id>> read_tokens(std::string_view field, const json::array& list,
                                          const pooled_limits& limits) {
  if (list.empty()) return refuse_field(field, "must not have an empty list of token ids");
  std::vector<token_id> out;
  out.reserve(list.size());
  for (const auto& id : list) {
    const auto number = as_integer(field, id, 0, limits.vocab - 1);
    if (!number) return number.error();
    out.push_back(static_cast<token_id>(*number));
  }
  return out;
}

/// A string, token ids, or a list of either.
result<std::vector<embedding_input>> read_inputs(const json::value& value, const pooled_limits& limits) {
  constexpr std::string_view field = "input";
  std::vector<embedding_input> out;
  const auto add = [&](auto read) -> result<void> {
    if (!read) return read.error();
    out.emplace_back(std::move(*read));
    return {};
  };
  if (!value.is_array()) {
    if (const auto added = add(read_text(field, value, limits)); !added) return added.error();
    return out;
  }
  const auto& list = value.get_array();
  if (!list.empty() && list[0].is_number()) {
    if (const auto added = add(read_tokens(field, list, limits)); !added) return added.error();
    return out;
  }
  if (const auto counted = check_count(field, list.size()); !counted) return counted.error();
  for (const auto& entry : list) {
    const auto added = entry.is_array() ? add(read_tokens(field, entry.get_array(), limits))
                                        : add(read_text(field, entry, limits));
    if (!added) return added.error();
  }
  return out;
}

result<void> take_embedding_field(std::string_view field, const json::value& value,
                                  const pooled_limits& limits, embedding_request& out) {
  if (field == "input") {
    auto inputs = read_inputs(value, limits);
    if (!inputs) return inputs.error();
    out.inputs = std::move(*inputs);
    return {};
  }
  if (field == "encoding_format") {
    const auto format = as_text(field, value);
    if (!format) return format.error();
    out.base64 = *format == "base64";
    if (out.base64 || *format == "float") return {};
    return refuse_field(field, "must be 'float' or 'base64'");
  }
  if (field == "dimensions") {
    const auto number = as_integer(field, value, 1, limits.dimensions);
    if (!number) return number.error();
    out.dimensions = static_cast<std::uint32_t>(*number);
    if (*number == limits.dimensions || limits.shorter_dimensions) return {};
    return refuse_field(field, "can only be " + std::to_string(limits.dimensions) +
                                   ": the worker was not told that a shortened embedding of this model is "
                                   "one (--matryoshka)");
  }
  const auto common = take_common(field, value, limits, out);
  if (!common) return common.error();
  return *common ? result<void>() : unknown_field(field);
}

result<std::vector<std::string>> read_documents(const json::value& value, const pooled_limits& limits) {
  constexpr std::string_view field = "documents";
  if (!value.is_array()) return refuse_kind(field, "an array", value);
  const auto& list = value.get_array();
  if (const auto counted = check_count(field, list.size()); !counted) return counted.error();
  std::vector<std::string> out;
  for (const auto& entry : list) {
    const json::value* text = &entry;
    if (const auto* object = entry.if_object()) {
      text = object->if_contains("text");
      if (text == nullptr || object->size() != 1) {
        return refuse_field(field, "must hold strings or objects with 'text' alone");
      }
    }
    auto read = read_text(field, *text, limits);
    if (!read) return read.error();
    out.push_back(std::move(*read));
  }
  return out;
}

result<void> take_rerank_field(std::string_view field, const json::value& value, const pooled_limits& limits,
                               rerank_request& out) {
  if (field == "query") {
    auto text = read_text(field, value, limits);
    if (!text) return text.error();
    out.query = std::move(*text);
    return {};
  }
  if (field == "documents") {
    auto documents = read_documents(value, limits);
    if (!documents) return documents.error();
    out.documents = std::move(*documents);
    return {};
  }
  if (field == "top_n") {
    const auto number = as_integer(field, value, 1, std::numeric_limits<std::uint32_t>::max());
    if (!number) return number.error();
    out.top_n = *number;
    return {};
  }
  if (field == "return_documents" || field == "raw_scores") {
    const auto truth = as_flag(field, value);
    if (!truth) return truth.error();
    (field == "raw_scores" ? out.raw_scores : out.return_documents) = *truth;
    return {};
  }
  const auto common = take_common(field, value, limits, out);
  if (!common) return common.error();
  return *common ? result<void>() : unknown_field(field);
}

template <class Request>
result<Request> parse(std::string_view body, const pooled_limits& limits,
                      result<void> (*take)(std::string_view, const json::value&, const pooled_limits&,
                                           Request&)) {
  Request out;
  const auto read = read_body(body, [&](std::string_view field, const json::value& value) {
    return value.is_null() ? result<void>() : take(field, value, limits, out);
  });
  if (!read) return read.error();
  return out;
}

}  // namespace

result<embedding_request> parse_embedding(std::string_view body, const pooled_limits& limits) {
  auto out = parse<embedding_request>(body, limits, take_embedding_field);
  if (out && out->inputs.empty()) return refuse_field("input", "is missing");
  return out;
}

result<rerank_request> parse_rerank(std::string_view body, const pooled_limits& limits) {
  auto out = parse<rerank_request>(body, limits, take_rerank_field);
  if (!out) return out;
  if (out->query.empty()) return refuse_field("query", "is missing");
  if (out->documents.empty()) return refuse_field("documents", "is missing");
  if (out->top_n == 0 || out->top_n > out->documents.size()) out->top_n = out->documents.size();
  return out;
}

}  // namespace orcd::net
