#include "engine/pair_format.hpp"

namespace orcd::engine {
namespace {

constexpr const char* template_key = "tokenizer.chat_template.rerank";
constexpr std::string_view query_mark = "{query}";
constexpr std::string_view document_mark = "{document}";

/// Replaces both marks in one pass, so that a mark inside a text stays text.
std::string fill_in(std::string_view form, std::string_view query, std::string_view document) {
  std::string out;
  out.reserve(form.size() + query.size() + document.size());
  while (!form.empty()) {
    if (form.starts_with(query_mark)) {
      out += query;
      form.remove_prefix(query_mark.size());
    } else if (form.starts_with(document_mark)) {
      out += document;
      form.remove_prefix(document_mark.size());
    } else {
      const auto next = form.find('{', 1);
      out += form.substr(0, next);
      form.remove_prefix(next == std::string_view::npos ? form.size() : next);
    }
  }
  return out;
}

}  // namespace

result<pair_format> pair_format::make(const gguf_file& file, const model_spec& spec) {
  pair_format out;
  if (!spec.causal) return out;
  const auto form = file.get_string(template_key, "");
  if (!form) return form.error();
  if (form->find(query_mark) == std::string_view::npos ||
      form->find(document_mark) == std::string_view::npos) {
    return error(errc::model_load_failed, std::string("the model cannot rank: ") + template_key +
                                              " is absent or lacks {query} or {document}");
  }
  out.template_ = std::string(*form);
  return out;
}

pooled_input pair_format::encode(std::string_view query, std::string_view document,
                                 const tokenizer& vocabulary) const {
  if (!template_.empty()) return {vocabulary.encode(fill_in(template_, query, document))};
  pooled_input out{vocabulary.encode(query)};
  out.second_segment = static_cast<std::uint32_t>(out.tokens.size());
  const auto second = vocabulary.encode(document, {false, true});
  out.tokens.insert(out.tokens.end(), second.begin(), second.end());
  // The second text ends as the first does.
  if (out.second_segment > 0 && out.tokens[out.second_segment - 1] == vocabulary.eos()) {
    out.tokens.push_back(vocabulary.eos());
  }
  return out;
}

}  // namespace orcd::engine
