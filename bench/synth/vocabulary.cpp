#include "bench/synth/vocabulary.hpp"

#include <string>
#include <unordered_set>
#include <vector>

#include "test/support/tiny_vocabulary.hpp"

namespace orcd::bench {
namespace {

constexpr unsigned letters = 26;
constexpr std::size_t longest_word = 4;
constexpr std::int32_t control_token = 3;

/// The next word in order of length and then of the alphabet.
void advance(std::string& word) {
  for (std::size_t at = word.size(); at-- > 0;) {
    if (word[at] != 'z') {
      ++word[at];
      return;
    }
    word[at] = 'a';
  }
  word.insert(word.begin(), 'a');
}

/// New words until the vocabulary has `tokens`; nothing is returned for those it had.
std::vector<std::string> fill(test::tiny_vocabulary& v, std::uint64_t tokens) {
  std::vector<std::string> words;
  const std::unordered_set<std::string> known(v.tokens.begin(), v.tokens.end());
  const bool scored = !v.scores.empty();
  // No score of the small vocabulary is below minus its size, so every word ranks after it.
  float score = -static_cast<float>(v.tokens.size());
  for (std::string word = "aa"; v.tokens.size() < tokens && word.size() <= longest_word; advance(word)) {
    if (known.contains(word)) continue;
    v.tokens.push_back(word);
    v.types.push_back(1);
    if (scored) v.scores.push_back(score -= 1.0F);
    words.push_back(word);
  }
  return words;
}

/// One merge for each word, all but its last letter with that letter; then further splits of the words,
/// as converters write them, until there are `merges`.
void add_merges(test::tiny_vocabulary& v, const std::vector<std::string>& words, std::uint64_t merges) {
  for (std::size_t from_end = 1; from_end < longest_word; ++from_end) {
    for (const std::string& word : words) {
      if (v.merges.size() >= merges) return;
      if (word.size() <= from_end) continue;
      const std::size_t cut = word.size() - from_end;
      v.merges.push_back(word.substr(0, cut) + " " + word.substr(cut));
    }
  }
}

}  // namespace

engine::result<void> add_tokenizer(test::gguf_writer& header, vocabulary_kind kind, std::uint64_t tokens,
                                   std::uint64_t merges) {
  using engine::errc;
  using engine::error;
  const bool bpe = kind != vocabulary_kind::sentencepiece;
  test::tiny_vocabulary v = bpe ? test::make_bpe_vocabulary() : test::make_spm_vocabulary();
  if (!bpe) {
    // llama.cpp takes no Phi-3 file whose vocabulary lacks it.
    v.tokens.emplace_back("<|endoftext|>");
    v.types.push_back(control_token);
    v.scores.push_back(0.0F);
  }
  const std::string limits = std::to_string(v.tokens.size()) + " to " +
                             std::to_string(v.tokens.size() + letters * letters * letters * letters);
  const std::vector<std::string> words = fill(v, tokens);
  if (v.tokens.size() != tokens) {
    return error(errc::invalid_request,
                 "the vocabulary is to have " + std::to_string(tokens) + " tokens; it must be " + limits);
  }
  if (bpe) add_merges(v, words, merges);
  test::add_vocabulary(header, v, kind == vocabulary_kind::gpt_4o ? "gpt-4o" : "qwen2");
  return {};
}

}  // namespace orcd::bench
