#include "net/pooled/pooled_request.hpp"

#include <array>
#include <limits>
#include <utility>

#include "net/completion/completion_fields.hpp"
#include "net/json/names.hpp"
#include "net/json/object_members.hpp"
#include "net/json/read_body.hpp"
#include "net/pooled/pooled_fields.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using engine::result;
using engine::token_id;

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
result<std::vector<embedding_input>> read_inputs(std::string_view field, const json::value& value,
                                                 const pooled_limits& limits) {
  std::vector<embedding_input> out;
  const auto add = [&](auto read) -> result<void> {
    if (!read) return read.error();
    out.emplace_back(std::move(*read));
    return {};
  };
  const auto add_text = [&](const json::value& given) -> result<void> {
    const auto text = without_media(field, given);
    return text ? add(read_pooled_text(field, **text, limits)) : result<void>(text.error());
  };
  if (!value.is_array()) {
    if (const auto added = add_text(value); !added) return added.error();
    return out;
  }
  const auto& list = value.get_array();
  if (!list.empty() && list[0].is_number()) {
    if (const auto added = add(read_tokens(field, list, limits)); !added) return added.error();
    return out;
  }
  if (const auto counted = check_pooled_count(field, list.size()); !counted) return counted.error();
  for (const auto& entry : list) {
    const auto added =
        entry.is_array() ? add(read_tokens(field, entry.get_array(), limits)) : add_text(entry);
    if (!added) return added.error();
  }
  return out;
}

completion_limits chat_limits_of(const pooled_limits& limits) {
  completion_limits out{limits.lengths, limits.served};
  out.vocab = limits.vocab;
  out.request_template = limits.request_template;
  return out;
}

class embedding_fields {
 public:
  embedding_fields(embedding_form form, const pooled_limits& limits)
      : limits_(limits),
        common_(limits),
        chat_limits_(chat_limits_of(limits)),
        chat_(completion_kind::chat, chat_limits_) {
    out_.form = form;
  }

  result<void> take(std::string_view field, const json::value& value) {
    if (value.is_null()) return {};
    if (is_input(field)) return take_inputs(field, value);
    const auto common = common_.take(field, value);
    if (!common) return common.error();
    if (*common) return {};
    if (ranks() && is_of_ranking(field)) return take_flag(field, value, out_.activated);
    if (ranks() && (field == "normalize" || field == "dimensions")) {
      return refuse_field(field, "is of embeddings; this model ranks");
    }
    if (field == "normalize") return take_flag(field, value, out_.normalised);
    if (field == "embd_normalize" && out_.form == embedding_form::llama) return take_norm(field, value);
    if (out_.form == embedding_form::llama) return unknown_field(field);
    if (field == "dimensions") return take_dimensions(field, value);
    if (out_.form == embedding_form::tei) return unknown_field(field);
    if (field == "encoding_format") return take_encoding(field, value);
    if (field == "add_special_tokens") return take_flag(field, value, out_.add_special);
    if (field == "task" && out_.form == embedding_form::pooling) return take_task(field, value);
    if (!is_listed(chat_names, field)) return unknown_field(field);
    if (field == "messages") has_messages_ = true;
    return chat_.take(field, value);
  }

  result<embedding_request> finish() && {
    const std::string_view field = out_.form == embedding_form::tei     ? "inputs"
                                   : out_.form == embedding_form::llama ? "content"
                                                                        : "input";
    if (has_messages_ && !out_.inputs.empty()) return refuse_field("messages", "cannot be beside 'input'");
    if (!has_messages_ && out_.inputs.empty()) return refuse_field(field, "is missing");
    const auto cut = common_.cut();
    if (!cut) return cut.error();
    out_.cut = *cut;
    out_.timeout = common_.timeout();
    if (!has_messages_) return std::move(out_);
    auto chat = std::move(chat_).finish();
    if (!chat) return chat.error();
    out_.chat = std::move(*chat);
    return std::move(out_);
  }

 private:
  static constexpr std::array<std::string_view, 5> chat_names{
      "messages", "chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message"};

  [[nodiscard]] bool ranks() const { return limits_.served.pooling == engine::pooling_kind::rank; }
  /// vLLM's newer name and its older one.
  static bool is_of_ranking(std::string_view field) {
    return field == "use_activation" || field == "activation";
  }

  [[nodiscard]] bool is_input(std::string_view field) const {
    switch (out_.form) {
      case embedding_form::tei: return field == "inputs";
      case embedding_form::llama: return field == "content" || field == "input";
      case embedding_form::openai:
      case embedding_form::pooling: break;
    }
    return field == "input";
  }

  result<void> take_inputs(std::string_view field, const json::value& value) {
    if (!out_.inputs.empty()) return refuse_field(field, "is given under another name too");
    auto inputs = read_inputs(field, value, limits_);
    if (!inputs) return inputs.error();
    out_.inputs = std::move(*inputs);
    return {};
  }

  static result<void> take_flag(std::string_view field, const json::value& value, bool& to) {
    const auto truth = as_flag(field, value);
    if (!truth) return truth.error();
    to = *truth;
    return {};
  }

  /// llama-server's: 2 for length 1, -1 for the numbers as they are.
  result<void> take_norm(std::string_view field, const json::value& given) {
    const json::value value = without_fraction(given);
    out_.normalised = value == json::value(2);
    if (out_.normalised || value == json::value(-1)) return {};
    return refuse_field(field, "must be 2 (length 1) or -1 (none): this worker has no other norm");
  }

  result<void> take_dimensions(std::string_view field, const json::value& value) {
    const auto number = as_integer(field, value, 1, limits_.dimensions);
    if (!number) return number.error();
    out_.dimensions = static_cast<std::uint32_t>(*number);
    if (*number == limits_.dimensions || limits_.shorter_dimensions) return {};
    return refuse_field(field, "can only be " + std::to_string(limits_.dimensions) +
                                   ": the worker was not told that a shortened embedding of this model is "
                                   "one (--matryoshka)");
  }

  result<void> take_encoding(std::string_view field, const json::value& value) {
    const auto format = as_text(field, value);
    if (!format) return format.error();
    out_.base64 = *format == "base64";
    if (out_.base64 || *format == "float") return {};
    return refuse_field(field, "must be 'float' or 'base64'");
  }

  /// What the model is served for, in vLLM's words.
  result<void> take_task(std::string_view field, const json::value& value) {
    const auto task = as_text(field, value);
    if (!task) return task.error();
    const bool each = limits_.served.pooling == engine::pooling_kind::none;
    const std::string_view served = ranks() ? "classify" : each ? "token_embed" : "embed";
    if (*task == served) return {};
    return refuse_word(field, "'" + std::string(served) + "', for which this model is served", *task);
  }

  const pooled_limits& limits_;
  embedding_request out_;
  pooled_fields common_;
  completion_limits chat_limits_;
  completion_fields chat_;
  bool has_messages_ = false;
};

result<std::vector<std::string>> read_documents(std::string_view field, const json::value& value,
                                                const pooled_limits& limits) {
  if (!value.is_array()) return refuse_kind(field, "an array", value);
  const auto& list = value.get_array();
  if (const auto counted = check_pooled_count(field, list.size()); !counted) return counted.error();
  std::vector<std::string> out;
  for (const auto& entry : list) {
    const json::value* text = &entry;
    if (const auto* object = entry.if_object()) {
      text = object->if_contains("text");
      if (text == nullptr || object->size() != 1) {
        return refuse_field(field, "must hold strings or objects with 'text' alone");
      }
    }
    auto read = read_pooled_text(field, *text, limits);
    if (!read) return read.error();
    out.push_back(std::move(*read));
  }
  return out;
}

class ranking_fields {
 public:
  explicit ranking_fields(const pooled_limits& limits) : limits_(limits), common_(limits) {}

  result<void> take(std::string_view field, const json::value& value) {
    if (value.is_null()) return {};
    if (field == "query") return take_query(field, value);
    if (field == "documents" || field == "texts") return take_documents(field, value);
    if (field == "top_n") return take_top(field, value);
    if (field == "max_tokens_per_doc") return take_document_tokens(field, value);
    if (field == "return_documents" || field == "return_text" || field == "raw_scores") {
      const auto truth = as_flag(field, value);
      if (!truth) return truth.error();
      (field == "raw_scores" ? out_.raw_scores : out_.return_documents) = *truth;
      return {};
    }
    const auto common = common_.take(field, value);
    if (!common) return common.error();
    return *common ? result<void>() : unknown_field(field);
  }

  result<rerank_request> finish() && {
    if (out_.query.empty()) return refuse_field("query", "is missing");
    if (out_.documents.empty()) return refuse_field("documents", "is missing");
    if (out_.top_n == 0 || out_.top_n > out_.documents.size()) out_.top_n = out_.documents.size();
    const auto cut = common_.cut();
    if (!cut) return cut.error();
    out_.cut = *cut;
    out_.timeout = common_.timeout();
    return std::move(out_);
  }

 private:
  result<void> take_query(std::string_view field, const json::value& value) {
    auto text = read_pooled_text(field, value, limits_);
    if (!text) return text.error();
    out_.query = std::move(*text);
    return {};
  }

  result<void> take_documents(std::string_view field, const json::value& value) {
    if (!out_.documents.empty()) return refuse_field(field, "is given under another name too");
    auto documents = read_documents(field, value, limits_);
    if (!documents) return documents.error();
    out_.documents = std::move(*documents);
    if (field == "texts") out_.form = ranking_form::tei;
    return {};
  }

  /// vLLM's 0 is all.
  result<void> take_top(std::string_view field, const json::value& value) {
    const auto number = as_integer(field, value, 0, std::numeric_limits<std::uint32_t>::max());
    if (!number) return number.error();
    out_.top_n = *number;
    return {};
  }

  result<void> take_document_tokens(std::string_view field, const json::value& value) {
    const auto number = as_integer(field, value, 1, std::numeric_limits<std::uint32_t>::max());
    if (!number) return number.error();
    out_.document_tokens = static_cast<std::uint32_t>(*number);
    return {};
  }

  const pooled_limits& limits_;
  rerank_request out_;
  pooled_fields common_;
};

/// The fields of vLLM's /score: two texts, each of which may be a list.
class score_fields {
 public:
  explicit score_fields(const pooled_limits& limits) : limits_(limits), common_(limits) {
    out_.form = ranking_form::score;
  }

  result<void> take(std::string_view field, const json::value& value) {
    if (value.is_null()) return {};
    if (is_listed(first_names, field)) return take_texts(field, value, out_.queries, first_);
    if (is_listed(second_names, field)) return take_texts(field, value, out_.documents, second_);
    if (field == "raw_scores") {
      const auto truth = as_flag(field, value);
      if (!truth) return truth.error();
      out_.raw_scores = *truth;
      return {};
    }
    const auto common = common_.take(field, value);
    if (!common) return common.error();
    return *common ? result<void>() : unknown_field(field);
  }

  result<rerank_request> finish() && {
    if (out_.queries.empty()) return refuse_field("text_1", "is missing");
    if (out_.documents.empty()) return refuse_field("text_2", "is missing");
    if (out_.queries.size() == 1) {
      out_.query = std::move(out_.queries.front());
      out_.queries.clear();
    } else if (out_.queries.size() != out_.documents.size()) {
      return refuse_field(first_, "has " + std::to_string(out_.queries.size()) + " texts, but '" + second_ +
                                      "' has " + std::to_string(out_.documents.size()));
    }
    out_.top_n = out_.documents.size();
    const auto cut = common_.cut();
    if (!cut) return cut.error();
    out_.cut = *cut;
    out_.timeout = common_.timeout();
    return std::move(out_);
  }

 private:
  static constexpr std::array<std::string_view, 3> first_names{"text_1", "data_1", "queries"};
  static constexpr std::array<std::string_view, 3> second_names{"text_2", "data_2", "documents"};

  result<void> take_texts(std::string_view field, const json::value& value, std::vector<std::string>& to,
                          std::string& name) {
    if (!to.empty()) return refuse_field(field, "is given under another name too");
    name = field;
    if (value.is_array()) {
      auto texts = read_documents(field, value, limits_);
      if (!texts) return texts.error();
      to = std::move(*texts);
      return {};
    }
    auto text = read_pooled_text(field, value, limits_);
    if (!text) return text.error();
    to.push_back(std::move(*text));
    return {};
  }

  const pooled_limits& limits_;
  rerank_request out_;
  pooled_fields common_;
  std::string first_;
  std::string second_;
};

/// The fields stay where they are, because some refer to others of them.
template <class Fields>
auto read_in_place(std::string_view body, Fields& fields) -> decltype(std::move(fields).finish()) {
  const auto read = read_body(
      body, [&fields](std::string_view name, const json::value& value) { return fields.take(name, value); });
  if (!read) return read.error();
  return std::move(fields).finish();
}

}  // namespace

result<embedding_request> parse_embedding(std::string_view body, const pooled_limits& limits,
                                          embedding_form form) {
  embedding_fields fields(form, limits);
  return read_in_place(body, fields);
}

result<embedding_request> parse_embedding(std::string_view body, const pooled_limits& limits) {
  return parse_embedding(body, limits, embedding_form::openai);
}

result<embedding_request> read_embedding(const json::object& given, const pooled_limits& limits) {
  embedding_fields fields(embedding_form::openai, limits);
  for (const auto& field : given) {
    if (const auto taken = fields.take(field.key(), field.value()); !taken) return taken.error();
  }
  return std::move(fields).finish();
}

result<rerank_request> parse_rerank(std::string_view body, const pooled_limits& limits) {
  ranking_fields fields(limits);
  return read_in_place(body, fields);
}

result<rerank_request> parse_score(std::string_view body, const pooled_limits& limits) {
  score_fields fields(limits);
  return read_in_place(body, fields);
}

}  // namespace orcd::net
