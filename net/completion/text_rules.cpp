// From texts to the tokens that a request favours, forbids or does not want in a row.
#include <algorithm>
#include <map>
#include <utility>

#include "engine/served/breaker_tokens.hpp"
#include "net/completion/completion_request.hpp"
#include "net/json/field_checks.hpp"

namespace orcd::net {
namespace {

using engine::result;
using engine::token_id;

std::vector<token_id> tokens_of(std::string_view text, const engine::tokenizer& vocabulary) {
  engine::encode_options as_text;
  as_text.add_special = false;
  as_text.parse_special = false;
  return vocabulary.encode(text, as_text);
}

/// What texts add to a token's bias is summed, as llama-server does.
result<void> resolve_biases(completion_request& asked, const engine::tokenizer& vocabulary) {
  std::map<token_id, float> sums;
  for (const auto& bias : asked.sampling.biases) sums.emplace(bias.token, bias.bias);
  for (const text_bias& one : asked.text_biases) {
    for (const token_id token : tokens_of(one.text, vocabulary)) {
      if (one.bias) {
        sums[token] += *one.bias;
      } else {
        asked.banned_tokens.push_back(token);
      }
    }
  }
  if (sums.size() > engine::logit_biases_max || asked.banned_tokens.size() > token_list_max) {
    return refuse_field("logit_bias", "may be of " + std::to_string(engine::logit_biases_max) +
                                          " tokens, its texts have more");
  }
  asked.sampling.biases.clear();
  for (const auto& [token, bias] : sums) asked.sampling.biases.push_back({token, bias});
  return {};
}

/// The tokens that a text has behind a line end: those within a text, whatever the vocabulary puts in front
/// of one that begins. Nothing where the two are not apart.
std::vector<token_id> tokens_within(const std::string& text, const engine::tokenizer& vocabulary) {
  const auto before = tokens_of("\n", vocabulary);
  auto all = tokens_of("\n" + text, vocabulary);
  if (all.size() < before.size() || !std::equal(before.begin(), before.end(), all.begin())) return {};
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return all;
}

/// Forbids a word as vLLM does: without white space in front, and with a space, for a word within a text has
/// other tokens than one that begins it.
void add_bad_word(completion_request& asked, const std::string& word, const engine::tokenizer& vocabulary) {
  const auto first = word.find_first_not_of(" \t\n\v\f\r");
  const std::string bare = first == std::string::npos ? word : word.substr(first);
  for (const std::string& spelt : {bare, " " + bare}) {
    for (auto& row : {tokens_of(spelt, vocabulary), tokens_within(spelt, vocabulary)}) {
      if (!row.empty()) asked.banned_rows.push_back(row);
    }
  }
}

/// What DRY's breakers are in this vocabulary.
void resolve_breakers(completion_request& asked, const engine::tokenizer& vocabulary) {
  auto& sampling = asked.sampling;
  if (!sampling.uses_dry()) return;
  if (has_own_breakers(asked)) {
    sampling.breakers = engine::make_dry_breakers(vocabulary, *asked.dry_breakers);
  } else if (!sampling.breakers) {
    sampling.breakers = engine::make_usual_breakers(vocabulary);
  }
}

}  // namespace

bool has_own_breakers(const completion_request& asked) {
  if (!asked.sampling.uses_dry() || !asked.dry_breakers) return false;
  const auto& usual = engine::usual_breakers;
  return !std::equal(usual.begin(), usual.end(), asked.dry_breakers->begin(), asked.dry_breakers->end());
}

result<void> resolve_texts(completion_request& asked, const engine::tokenizer& vocabulary) {
  if (!asked.text_biases.empty()) {
    if (const auto resolved = resolve_biases(asked, vocabulary); !resolved) return resolved;
  }
  for (const std::string& word : asked.bad_words) add_bad_word(asked, word, vocabulary);
  auto& rows = asked.banned_rows;
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  resolve_breakers(asked, vocabulary);
  return {};
}

}  // namespace orcd::net
