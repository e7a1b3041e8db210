#include "engine/served/pair_format.hpp"

#include <algorithm>

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

/// At most so many tokens, and at least one.
void cut(std::vector<token_id>& tokens, std::size_t most, bool keeps_last) {
  most = std::max<std::size_t>(most, 1);
  if (tokens.size() <= most) return;
  if (keeps_last) tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(most));
  tokens.resize(most);
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

// A text that is written into a template is cut as text; its tokens there may be other ones than alone, so
// that it is cut again until the pair fits.
pooled_input pair_format::encode_filled(std::string_view query, std::string_view document,
                                        const tokenizer& vocabulary, const pair_room& room) const {
  pooled_input out{vocabulary.encode(fill_in(template_, query, document))};
  const bool fits = out.tokens.size() <= room.pair;
  if (fits && room.document == pair_room().document) return out;
  auto words = vocabulary.encode(document, {false, true});
  if (fits && words.size() <= room.document) return out;
  for (std::size_t most = std::min(words.size(), room.document);;) {
    cut(words, most, room.keeps_last);
    out.tokens = vocabulary.encode(fill_in(template_, query, vocabulary.decode(words)));
    if (out.tokens.size() <= room.pair || words.size() <= 1) return out;
    most = words.size() - std::min(words.size() - 1, out.tokens.size() - room.pair);
  }
}

pooled_input pair_format::encode(std::string_view query, std::string_view document,
                                 const tokenizer& vocabulary, const pair_room& room) const {
  if (!template_.empty()) return encode_filled(query, document, vocabulary, room);
  pooled_input out{vocabulary.encode(query)};
  out.second_segment = static_cast<std::uint32_t>(out.tokens.size());
  // The second text ends as the first does.
  const bool ends = out.second_segment > 0 && out.tokens.back() == vocabulary.eos();
  const std::size_t around = out.tokens.size() + (ends ? 1 : 0);
  auto second = vocabulary.encode(document, {false, true});
  cut(second, std::min(room.document, room.pair - std::min(room.pair, around)), room.keeps_last);
  out.tokens.insert(out.tokens.end(), second.begin(), second.end());
  if (ends) out.tokens.push_back(vocabulary.eos());
  return out;
}

}  // namespace orcd::engine
