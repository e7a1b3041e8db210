// The names under which files ask for a pre-tokenizer.
#include <algorithm>
#include <string>

#include "engine/text/split/pretokenizer.hpp"

namespace orcd::engine {

namespace {

// What a family's own tokenizer does besides cutting words.
enum preset_flag : unsigned { whole_words = 1, bos = 2, nfc = 4, metaspace = 8 };

struct named_preset {
  std::string_view names;  // separated by spaces
  std::vector<split_rule> stages;
  unsigned flags = 0;
};

// The names are those that converters write, the rules those of the models' own tokenizer.json. Where these
// and llama.cpp differ, the model's own count: falcon cuts digits out of words byte by byte, laguna lets a
// run of newlines begin a word, DeepSeek's, tiny_aya and kimi-k2 have their patterns as published.
const std::vector<named_preset>& presets() {
  using enum split_rule;
  static const std::vector<named_preset> table = {
      {"default", {punctuation_run, gpt2, digit_run, ascii_digits_3}},
      {"gpt-2 phi-2 exaone4 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code roberta-bpe "
       "gigachat a.x-4.0 mellum jais trillion granite-docling",
       {gpt2}},
      {"mpt olmo modern-bert", {gpt2}, nfc},
      {"smollm starcoder refact codeshell exaone minerva-7b mellum2", {split_digit_each, gpt2}},
      {"command-r", {split_digit_each, gpt2}, nfc},
      {"falcon", {split_punctuation_run, gpt2, byte_digit_run, ascii_digits_3}},
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
       {llama3},
       whole_words | bos},
      {"dbrx smaug-bpe chatglm-bpe", {llama3}},
      {"glm4 glm5", {llama3}, whole_words},
      {"jais-2", {jais2}},
      {"minicpm5", {digits_3, llama3}, whole_words},
      {"qwen2 deepseek-r1-qwen f2llmv2", {qwen2}, nfc},
      {"stablelm2 hunyuan grok-2 megrez kormo solar-open bailingmoe bailingmoe2 llada-moe", {qwen2}},
      {"laguna", {newline_start, qwen2}},
      {"ufakzeka", {ufakzeka}},
      {"seed-coder", {seed_coder}},
      {"exaone-moe", {exaone_moe}},
      {"qwen35", {qwen35}, nfc},
      {"gpt-4o llama4 kanana2 talkie minimax-m2", {o200k}},
      {"granite-embed-multi-97m", {o200k}, whole_words},
      {"tiny_aya cohere2moe", {decimal_groups, o200k}, nfc},
      {"youtu", {hangul, wide_punctuation, bopomofo, ideographs_kana, o200k_digits}, whole_words},
      {"tekken", {tekken}, whole_words | bos},
      {"kimi-k2", {kimi_k2}},
      {"deepseek-llm",
       {newline_each, spaced_cased_letters, spaced_wide_punctuation, trailing_space, ideographs_hangul,
        split_digit_each}},
      {"deepseek-coder",
       {newline_each, spaced_letters, spaced_punctuation, ideographs_hangul, split_digit_each}},
      {"deepseek-v3 hunyuan-dense joyai-llm hy_v4", {digits_3, ideographs_kana, deepseek3}},
      {"spark2_5", {digits_3, ideographs_kana, spark, split_digit_each}},
      {"afmoe", {digit_groups, asian, deepseek3}},
      {"bloom poro-chat gpt3-finnish", {unpunctuated}},
      {"viking", {unpunctuated, split_digit_each}},
      {"superbpe", {digit_run, decimal_group_starts}},
      {"chameleon",
       {chameleon_sentinel, chameleon_image, chameleon_space, split_digit_each, split_punctuation_each, gpt2},
       bos},
      {"gemma4", {}, metaspace | bos},
      {"granite-embed-multi-311m sarvam-moe", {}, metaspace},
  };
  return table;
}

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t space = std::min(names.find(' '), names.size());
    if (names.substr(0, space) == name) return true;
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return false;
}

}  // namespace

std::optional<pretokenizer_preset> find_preset(std::string_view pre) {
  for (const named_preset& p : presets()) {
    if (!lists(p.names, pre)) continue;
    const auto has = [&p](preset_flag flag) { return (p.flags & flag) != 0; };
    return pretokenizer_preset{p.stages, has(whole_words), has(bos), has(nfc), has(metaspace)};
  }
  return std::nullopt;
}

std::string_view preset_names() noexcept {
  static const std::string all = [] {
    std::string text;
    for (const named_preset& p : presets()) text.append(text.empty() ? "" : " ").append(p.names);
    return text;
  }();
  return all;
}

std::optional<known_pattern> find_pattern(std::string_view regex) {
  static constexpr struct {
    std::string_view regex;
    known_pattern found;
  } table[] = {
      {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
       {"gpt-2", split_rule::gpt2}},
      {R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
       {"gpt-2", split_rule::gpt2}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
       R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"llama-bpe", split_rule::llama3}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
       R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"qwen2", split_rule::qwen2}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|)"
       R"( ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"qwen35", split_rule::qwen35}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|)"
       R"('t|'re|'ve|'m|'ll|'d)?|)"
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|)"
       R"('t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"o200k", split_rule::o200k}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
       R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|)"
       R"( ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"tekken", split_rule::tekken}},
      {R"(\p{N})", {"digits", split_rule::digit_each}},
      {R"(\p{N}+)", {"digits", split_rule::digit_run}},
  };
  for (const auto& row : table) {
    if (row.regex == regex) return row.found;
  }
  return std::nullopt;
}

}  // namespace orcd::engine
