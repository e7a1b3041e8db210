// The names under which files ask for a pre-tokenizer.
#include <algorithm>
#include <string>

#include "engine/text/pretokenizer.hpp"

namespace orcd::engine {

namespace {

struct named_preset {
  std::string_view names;  // separated by spaces
  std::vector<split_rule> stages;
  bool ignore_merges = false;
  bool add_bos = false;
  bool nfc = false;
};

const std::vector<named_preset>& presets() {
  using enum split_rule;
  static const std::vector<named_preset> table = {
      {"default", {punctuation_run, gpt2, digit_run, ascii_digits_3}},
      {"gpt-2 phi-2 mpt olmo exaone4 modern-bert jina-es jina-de jina-v1-en jina-v2-es jina-v2-de "
       "jina-v2-code",
       {gpt2}},
      {"smollm starcoder refact command-r codeshell exaone", {digit_each, gpt2}},
      {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", {llama3}, true, true},
      {"dbrx smaug-bpe glm4 chatglm-bpe", {llama3}},
      {"qwen2 deepseek-r1-qwen", {qwen2}, false, false, true},
      {"stablelm2 hunyuan grok-2 megrez", {qwen2}},
      {"qwen35", {qwen35}, false, false, true},
      {"gpt-4o llama4 kanana2", {o200k}},
      {"tekken", {tekken}, true, true},
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
    if (lists(p.names, pre)) return pretokenizer_preset{p.stages, p.ignore_merges, p.add_bos, p.nfc};
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
