#include "engine/text/special_tokens.hpp"

#include "engine/text/unicode_tables.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine {

namespace {

// The character that ends at text[at - 1]; at > 0.
utf8::decoded before(std::string_view text, std::size_t at) {
  std::size_t start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  const utf8::decoded d = utf8::decode(text.data() + start, text.data() + at);
  return start + d.size == at ? d : utf8::decoded{utf8::invalid, 1};
}

utf8::decoded after(std::string_view text, std::size_t at) {
  return utf8::decode(text.data() + at, text.data() + text.size());
}

bool has_class(char32_t code, std::uint16_t mask) {
  return (unicode_table::instance().classes(code) & mask) != 0;
}

bool stands_alone(std::string_view text, std::size_t from, std::size_t to) {
  return (from == 0 || !has_class(before(text, from).code, class_word)) &&
         (to == text.size() || !has_class(after(text, to).code, class_word));
}

}  // namespace

void special_tokens::add(std::string_view text, special_token token) {
  if (text.empty() || text.size() > max_bytes) return;
  const std::uint32_t node = trie_.add(text);
  token_at_.resize(trie_.size(), -1);
  if (token_at_[node] >= 0) return;
  token_at_[node] = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
}

special_tokens::match special_tokens::find(std::string_view text, std::size_t from, bool parse_special,
                                           std::span<const text_range>& left) const {
  if (tokens_.empty()) return {};
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!trie_.starts_with(static_cast<unsigned char>(text[at]))) continue;
    while (!left.empty() && left.front().from + left.front().size <= at) left = left.subspan(1);
    // Where a special token must have ended.
    const std::size_t stop = !parse_special ? at : left.empty() ? text.size() : left.front().from;
    match best;
    std::uint32_t node = byte_trie::root;
    for (std::size_t i = at; i < text.size(); ++i) {
      node = trie_.child(node, static_cast<unsigned char>(text[i]));
      if (node == byte_trie::none) break;
      if (token_at_[node] < 0) continue;
      const special_token& t = tokens_[static_cast<std::size_t>(token_at_[node])];
      if (!t.special || i < stop) best = {&t, at, i + 1 - at};
    }
    if (best.token == nullptr) continue;
    if (!best.token->single_word || stands_alone(text, at, at + best.size)) return best;
    at += best.size - 1;  // as in Hugging Face, the search goes on behind a rejected match
  }
  return {};
}

std::size_t special_tokens::skip_back(std::string_view text, std::size_t from, std::size_t at) {
  while (at > from) {
    const utf8::decoded d = before(text, at);
    if (!has_class(d.code, class_space)) break;
    at -= d.size;
  }
  return at < from ? from : at;
}

std::size_t special_tokens::skip_forward(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const utf8::decoded d = after(text, at);
    if (!has_class(d.code, class_space)) break;
    at += d.size;
  }
  return at;
}

}  // namespace orcd::engine
