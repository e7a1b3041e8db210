#include "engine/served/breaker_tokens.hpp"

#include <algorithm>

namespace orcd::engine {
namespace {

using rests = std::vector<std::vector<token_id>>;

/// What must follow a token's text where that holds the whole breaker, or ends in the beginning of it.
void add_rests(rests& out, std::string_view word, std::string_view breaker, const tokenizer& vocabulary) {
  if (word.find(breaker) != std::string_view::npos) return void(out.emplace_back());
  for (std::size_t at = word.find(breaker.front()); at != std::string_view::npos;
       at = word.find(breaker.front(), at + 1)) {
    const std::string_view end = word.substr(at);
    if (end.size() >= breaker.size() || !breaker.starts_with(end)) continue;
    encode_options as_text;
    as_text.add_special = false;
    as_text.parse_special = false;
    auto rest = vocabulary.encode(breaker.substr(end.size()), as_text);
    rest.resize(std::min(rest.size(), breaker_tokens_max));
    out.push_back(std::move(rest));
  }
}

}  // namespace

std::shared_ptr<const dry_breakers> make_dry_breakers(const tokenizer& vocabulary,
                                                      std::span<const std::string> texts) {
  auto out = std::make_shared<dry_breakers>();
  out->texts.assign(texts.begin(), texts.end());
  std::string word;
  rests found;
  for (std::uint32_t id = 0; id < vocabulary.vocab_size(); ++id) {
    const auto token = static_cast<token_id>(id);
    word.clear();
    vocabulary.append_bytes(token, word, true);
    found.clear();
    for (const std::string_view text : texts) {
      const std::string_view breaker = text.substr(0, breaker_bytes_max);
      if (!breaker.empty() && !word.empty()) add_rests(found, word, breaker, vocabulary);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    for (auto& rest : found) out->rows.emplace_back(token, std::move(rest));
  }
  return out;
}

std::shared_ptr<const dry_breakers> make_usual_breakers(const tokenizer& vocabulary) {
  return make_dry_breakers(vocabulary,
                           std::vector<std::string>(usual_breakers.begin(), usual_breakers.end()));
}

}  // namespace orcd::engine
