// Tokenizers from the tokenizer.ggml.* keys of a GGUF file.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "engine/text/bpe_tokenizer.hpp"
#include "engine/text/end_of_generation.hpp"
#include "engine/text/spm_tokenizer.hpp"
#include "engine/text/wordpiece_tokenizer.hpp"

namespace orcd::engine {

namespace {

constexpr std::string_view prefix = "tokenizer.ggml.";
constexpr std::size_t max_merges = 1u << 22;

error refuse(std::string text) {
  return {errc::model_load_failed, std::move(text)};
}

std::string key(std::string_view name) {
  return std::string(prefix).append(name);
}

// A special id: `fallback` when absent, -1 when it is outside the vocabulary.
result<token_id> read_id(const gguf_file& file, std::string_view name, std::uint32_t vocab,
                         token_id fallback) {
  const gguf_value* v = file.find(key(name));
  if (v == nullptr) return fallback >= 0 && static_cast<std::uint32_t>(fallback) < vocab ? fallback : -1;
  if (const auto* i = std::get_if<std::int64_t>(&v->value)) {
    return *i >= 0 && *i < static_cast<std::int64_t>(vocab) ? static_cast<token_id>(*i) : -1;
  }
  if (const auto* u = std::get_if<std::uint64_t>(&v->value))
    return *u < vocab ? static_cast<token_id>(*u) : -1;
  return refuse(key(name) + " is not an integer");
}

result<std::vector<token_entry>> read_tokens(const gguf_file& file) {
  const auto pieces = file.get_strings(key("tokens"));
  if (!pieces) return pieces.error();
  const auto types = file.get_integers(key("token_type"));
  if (!types) return types.error();
  if (pieces->empty()) return refuse("tokenizer.ggml.tokens is absent or empty");
  if (!types->empty() && types->size() != pieces->size()) {
    return refuse("tokenizer.ggml.token_type has " + std::to_string(types->size()) +
                  " entries, tokenizer.ggml.tokens has " + std::to_string(pieces->size()));
  }
  std::vector<token_entry> tokens(pieces->size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::int64_t type = types->empty() ? 1 : (*types)[i];
    if (type < 0 || type > 6) {
      return refuse("tokenizer.ggml.token_type[" + std::to_string(i) + "] is " + std::to_string(type) +
                    ", the known types are 0 to 6");
    }
    // Type 0 is "undefined": such tokens are ordinary text.
    tokens[i] = {(*pieces)[i], type == 0 ? token_kind::normal : static_cast<token_kind>(type)};
  }
  return tokens;
}

// Only Phi-3 strips whitespace behind its special tokens, and the file has no key that says so.
bool strips_right(const gguf_file& file) {
  const auto architecture = file.get_string("general.architecture", "");
  const auto name = file.get_string("general.name", "");
  std::string lower(name ? *name : std::string_view());
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
  return (architecture && *architecture == "phi3") || lower.find("phi-3") != std::string::npos ||
         lower.find("phi3") != std::string::npos;
}

void add_specials(const vocabulary& vocab, bool rstrip, special_tokens& specials) {
  for (std::uint32_t i = 0; i < vocab.size(); ++i) {
    const auto id = static_cast<token_id>(i);
    const token_kind kind = vocab.kind(id);
    if (kind != token_kind::control && kind != token_kind::user_defined && kind != token_kind::unknown)
      continue;
    const std::string_view text = vocab.piece(id);
    const bool strip = rstrip && text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
    specials.add(text, {id, kind != token_kind::user_defined, false, strip, false});
  }
}

/// How files name a token of infill_tokens, and how its text looks where they name none.
struct infill_names {
  token_id infill_tokens::*to;
  std::array<const char*, 2> keys;
  std::array<std::string_view, 7> pieces;
};
constexpr std::array<infill_names, 5> infill_table{
    {{&infill_tokens::prefix,
      {"fim_pre_token_id", "prefix_token_id"},
      {"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>", "\u2581<PRE>", "<|code_prefix|>",
       "<\uFF5Cfim\u2581begin\uFF5C>", "<|prefix|>"}},
     {&infill_tokens::suffix,
      {"fim_suf_token_id", "suffix_token_id"},
      {"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>", "\u2581<SUF>", "<|code_suffix|>",
       "<\uFF5Cfim\u2581hole\uFF5C>", "<|suffix|>"}},
     {&infill_tokens::middle,
      {"fim_mid_token_id", "middle_token_id"},
      {"<|fim_middle|>", "<fim_middle>", "<fim-middle>", "\u2581<MID>", "<|code_middle|>",
       "<\uFF5Cfim\u2581end\uFF5C>", "<|middle|>"}},
     {&infill_tokens::repository,
      {"fim_rep_token_id", ""},
      {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<reponame>"}},
     {&infill_tokens::file, {"fim_sep_token_id", ""}, {"<|file_sep|>"}}}};

result<infill_tokens> read_infill(const gguf_file& file, const vocabulary& vocab) {
  infill_tokens out;
  for (const auto& names : infill_table) {
    auto& to = out.*names.to;
    for (const char* name : names.keys) {
      if (to >= 0 || *name == 0) continue;
      const auto id = read_id(file, name, vocab.size(), -1);
      if (!id) return id.error();
      to = *id;
    }
    for (const auto piece : names.pieces) {
      if (to < 0 && !piece.empty()) to = vocab.find_piece(piece);
    }
  }
  return out;
}

// The rules besides the algorithm: special ids, the end-of-generation set, BOS and EOS.
result<vocab_rules> read_rules(const gguf_file& file, vocabulary& vocab, bool spm, bool bos_default) {
  vocab_rules rules;
  const auto bos = read_id(file, "bos_token_id", vocab.size(), spm ? 1 : -1);
  if (!bos) return bos.error();
  const auto eos = read_id(file, "eos_token_id", vocab.size(), spm ? 2 : -1);
  if (!eos) return eos.error();
  rules.bos = *bos;
  rules.eos = *eos;
  rules.end_of_generation = mark_end_tokens(vocab);
  for (const char* name : {"eos_token_id", "eot_token_id", "eom_token_id", "fim_pad_token_id",
                           "fim_rep_token_id", "fim_sep_token_id"}) {
    const auto id = read_id(file, name, vocab.size(), name == std::string_view("eos_token_id") ? *eos : -1);
    if (!id) return id.error();
    if (*id >= 0) rules.end_of_generation.push_back(*id);
  }
  add_specials(vocab, spm && strips_right(file), rules.specials);
  apply_harmony(vocab, rules.end_of_generation);
  if (rules.eos < 0) rules.eos = likely_eos(vocab, rules.end_of_generation);
  const auto infill = read_infill(file, vocab);
  if (!infill) return infill.error();
  rules.infill = *infill;
  const auto add_bos = file.get_bool(key("add_bos_token"), bos_default);
  if (!add_bos) return add_bos.error();
  const auto add_eos = file.get_bool(key("add_eos_token"), false);
  if (!add_eos) return add_eos.error();
  if (*add_bos && rules.bos >= 0) rules.prefix.push_back(rules.bos);
  if (*add_eos && rules.eos >= 0) rules.suffix.push_back(rules.eos);
  return rules;
}

// Leaves the kind `unknown` to the one unknown token: converters give it to padding rows too.
result<token_id> settle_unknown(const gguf_file& file, std::vector<token_entry>& tokens, token_id fallback) {
  const auto unknown = read_id(file, "unknown_token_id", static_cast<std::uint32_t>(tokens.size()), fallback);
  if (!unknown) return unknown.error();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i].kind == token_kind::unknown && static_cast<token_id>(i) != *unknown) {
      tokens[i].kind = token_kind::unused;
    }
  }
  return *unknown;
}

result<merge_table> read_merges(const gguf_file& file, const vocabulary& vocab, spelling how) {
  const auto merges = file.get_strings(key("merges"));
  if (!merges) return merges.error();
  if (merges->empty()) return refuse("tokenizer.ggml.merges is absent or empty");
  if (merges->size() > max_merges) {
    return refuse("tokenizer.ggml.merges has " + std::to_string(merges->size()) + " entries, the limit is " +
                  std::to_string(max_merges));
  }
  const auto append = [how](std::string_view piece, std::string& out) {
    if (how == spelling::byte_level) {
      append_byte_level(piece, out);
    } else {
      out.append(piece);
    }
  };
  merge_table table(merges->size());
  std::string bytes;
  for (std::size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string_view merge = (*merges)[rank];
    const std::size_t space = merge.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == merge.size()) {
      return refuse("tokenizer.ggml.merges[" + std::to_string(rank) +
                    "] is not two tokens with a space between");
    }
    bytes.clear();
    append(merge.substr(0, space), bytes);
    const std::size_t cut = bytes.size();
    append(merge.substr(space + 1), bytes);
    const std::string_view all = bytes;
    const token_id left = vocab.find(all.substr(0, cut));
    const token_id right = vocab.find(all.substr(cut));
    const token_id merged = vocab.find(all);
    // A merge of tokens that are not in the vocabulary can never apply.
    if (left < 0 || right < 0 || merged < 0) continue;
    table.add(left, right, {static_cast<std::uint32_t>(rank), merged});
  }
  return table;
}

// Some converters leave a byte token's kind out.
void mark_byte_tokens(std::vector<token_entry>& tokens) {
  for (token_entry& token : tokens) {
    if (token.kind == token_kind::normal && parse_byte_piece(token.piece) >= 0) token.kind = token_kind::byte;
  }
}

bool is_gemma4(const gguf_file& file) {
  const auto model = file.get_string(key("model"), "");
  return model && *model == "gemma4";
}

/// The name that `chosen`, if it is not empty, or the file gives. Files of Gemma 4 have it as their model.
result<std::string_view> name_of_preset(const gguf_file& file, std::string_view chosen) {
  if (!chosen.empty()) return chosen;
  if (is_gemma4(file)) return std::string_view("gemma4");
  return file.get_string(key("pre"), "default");
}

/// Some files name a tag of HTML as an end.
void leave_out_text(const vocabulary& vocab, vocab_rules& rules) {
  std::erase_if(rules.end_of_generation, [&](token_id id) { return is_gemma4_text(vocab.piece(id)); });
  if (rules.eos >= 0 && is_gemma4_text(vocab.piece(rules.eos)))
    rules.eos = likely_eos(vocab, rules.end_of_generation);
}

result<std::unique_ptr<tokenizer>> make_bpe(const gguf_file& file, std::vector<token_entry> tokens,
                                            std::string_view chosen) {
  const auto pre = name_of_preset(file, chosen);
  if (!pre) return pre.error();
  std::optional<pretokenizer_preset> preset = find_preset(*pre);
  if (!preset) {
    return refuse(
        (chosen.empty() ? "tokenizer.ggml.pre" : "--tokenizer-pre") + std::string(" is '") +
        std::string(pre->substr(0, 64)) +
        "', which is not known; --tokenizer-pre NAME chooses one of: " + std::string(preset_names()));
  }
  const auto unknown = settle_unknown(file, tokens, -1);
  if (!unknown) return unknown.error();
  bpe_settings settings;
  if (preset->metaspace) {
    settings.how = spelling::sentencepiece;
    settings.unknown = *unknown;
    settings.fuse_unknown = true;
    mark_byte_tokens(tokens);
  }
  if (is_gemma4(file)) settle_gemma4(tokens);
  auto vocab = vocabulary::make(tokens, settings.how);
  if (!vocab) return vocab.error();
  auto merges = read_merges(file, *vocab, settings.how);
  if (!merges) return merges.error();
  auto rules = read_rules(file, *vocab, false, preset->add_bos);
  if (!rules) return rules.error();
  if (is_gemma4(file)) leave_out_text(*vocab, *rules);
  rules->kind = "gguf-bpe/" + std::string(*pre);
  settings.stages = std::move(preset->stages);
  settings.ignore_merges = preset->ignore_merges;
  settings.nfc = preset->nfc;
  return std::unique_ptr<tokenizer>(std::make_unique<bpe_tokenizer>(std::move(*vocab), std::move(*merges),
                                                                    std::move(settings), std::move(*rules)));
}

result<std::unique_ptr<tokenizer>> make_spm(const gguf_file& file, std::vector<token_entry> tokens) {
  spm_settings settings;
  auto scores = file.get_floats(key("scores"));
  if (!scores) return scores.error();
  if (scores->size() != tokens.size()) {
    return refuse("tokenizer.ggml.scores has " + std::to_string(scores->size()) +
                  " entries, tokenizer.ggml.tokens has " + std::to_string(tokens.size()));
  }
  const auto nan = std::find_if(scores->begin(), scores->end(), [](float s) { return std::isnan(s); });
  if (nan != scores->end()) {
    return refuse("tokenizer.ggml.scores[" + std::to_string(nan - scores->begin()) + "] is not a number");
  }
  settings.scores = std::move(*scores);
  const auto unknown = settle_unknown(file, tokens, 0);
  if (!unknown) return unknown.error();
  settings.unknown = *unknown;
  const auto space = file.get_bool(key("add_space_prefix"), true);
  if (!space) return space.error();
  settings.space_prefix = *space;
  auto vocab = vocabulary::make(tokens, spelling::sentencepiece);
  if (!vocab) return vocab.error();
  auto rules = read_rules(file, *vocab, true, true);
  if (!rules) return rules.error();
  rules->strip_leading_space = settings.space_prefix;
  rules->kind = "gguf-spm";
  return std::unique_ptr<tokenizer>(
      std::make_unique<spm_tokenizer>(std::move(*vocab), std::move(settings), std::move(*rules)));
}

// A special id under the first of two names that the file has.
result<token_id> read_either_id(const gguf_file& file, const char* name, const char* other,
                                std::uint32_t vocab, token_id fallback) {
  const bool given = file.find(key(name)) != nullptr;
  return read_id(file, given ? name : other, vocab, fallback);
}

// Whether the vocabulary is uncased: no key says so, but then no ordinary token has a capital letter.
bool is_uncased(std::span<const token_entry> tokens) {
  const auto is_capital = [](char c) { return c >= 'A' && c <= 'Z'; };
  return std::none_of(tokens.begin(), tokens.end(), [&](const token_entry& t) {
    return t.kind == token_kind::normal && std::any_of(t.piece.begin(), t.piece.end(), is_capital);
  });
}

// BOS is [CLS], and [SEP] ends every text; keys that are absent have the values of BERT's own vocabulary.
result<std::unique_ptr<tokenizer>> make_wordpiece(const gguf_file& file, std::vector<token_entry> tokens) {
  const auto size = static_cast<std::uint32_t>(tokens.size());
  const auto bos = read_either_id(file, "bos_token_id", "cls_token_id", size, 101);
  if (!bos) return bos.error();
  const auto separator = read_either_id(file, "seperator_token_id", "eos_token_id", size, 102);
  if (!separator) return separator.error();
  const auto unknown = settle_unknown(file, tokens, 100);
  if (!unknown) return unknown.error();
  if (*unknown < 0) return refuse("tokenizer.ggml.unknown_token_id names no token of the vocabulary");
  const auto add_bos = file.get_bool(key("add_bos_token"), true);
  if (!add_bos) return add_bos.error();
  const auto add_separator = file.get_bool(key("add_sep_token"), true);
  if (!add_separator) return add_separator.error();
  const wordpiece_settings settings{*unknown, is_uncased(tokens)};
  auto vocab = vocabulary::make(tokens, spelling::sentencepiece);
  if (!vocab) return vocab.error();
  vocab_rules rules;
  rules.bos = *bos;
  rules.eos = *separator;
  if (*add_bos && rules.bos >= 0) rules.prefix.push_back(rules.bos);
  if (*add_separator && rules.eos >= 0) rules.suffix.push_back(rules.eos);
  add_specials(*vocab, false, rules.specials);
  rules.strip_leading_space = true;
  rules.one_bos = false;  // as the tokenizers package has it
  rules.kind = "gguf-wordpiece";
  return std::unique_ptr<tokenizer>(
      std::make_unique<wordpiece_tokenizer>(std::move(*vocab), settings, std::move(rules)));
}

}  // namespace

result<std::unique_ptr<tokenizer>> make_gguf_tokenizer(const gguf_file& file, std::string_view pre) {
  const auto model = file.require_string(key("model"));
  if (!model) return model.error();
  const bool bpe = *model == "gpt2" || *model == "gemma4";
  if (!bpe && *model != "llama" && *model != "bert") {
    return refuse("tokenizer.ggml.model is '" + std::string(model->substr(0, 64)) +
                  "'; supported are gpt2 and gemma4 (BPE), llama (SentencePiece) and bert (WordPiece)");
  }
  if (!bpe && !pre.empty()) {
    return refuse("--tokenizer-pre is for BPE; tokenizer.ggml.model is '" + std::string(*model) + "'");
  }
  auto tokens = read_tokens(file);
  if (!tokens) return tokens.error();
  if (*model == "bert") return make_wordpiece(file, std::move(*tokens));
  return bpe ? make_bpe(file, std::move(*tokens), pre) : make_spm(file, std::move(*tokens));
}

}  // namespace orcd::engine
