// Arbitrary bytes through a GGUF byte-level BPE with each pre-tokenizer, BPE over SentencePiece's spelling
// and a GGUF SentencePiece model with merges among all short ASCII words, and through WordPiece: all but the
// last give the bytes back, ids stay in range, and streaming in any order of tokens never fails. The first
// byte chooses the pre-tokenizer.
#include "engine/text/tokenizer.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <sstream>
#include <string>

#include "engine/base/ensure.hpp"
#include "engine/text/split/pretokenizer.hpp"
#include "engine/text/token_stream.hpp"
#include "engine/text/vocabulary.hpp"
#include "test/support/gguf_writer.hpp"

using namespace orcd::engine;

namespace {

// GPT-2's character for a byte, found by asking the inverse map.
std::string byte_character(unsigned char byte) {
  for (unsigned code = 0x21; code < 0x144; ++code) {
    std::string piece;
    if (code < 0x80) {
      piece.push_back(static_cast<char>(code));
    } else {
      piece.push_back(static_cast<char>(0xC0 | code >> 6));
      piece.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
    std::string out;
    if (append_byte_level(piece, out) && out.size() == 1 && static_cast<unsigned char>(out[0]) == byte)
      return piece;
  }
  ORCD_ENSURE(false);
}

std::unique_ptr<tokenizer> load(const orcd::test::gguf_writer& writer) {
  const auto image = writer.build();
  const auto file = gguf_file::parse(image, "fuzz");
  ORCD_ENSURE(file.has_value());
  auto made = make_gguf_tokenizer(*file);
  ORCD_ENSURE(made.has_value());
  return std::move(*made);
}

std::unique_ptr<tokenizer> make_bpe(const std::string& pre) {
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  for (int b = 0; b < 256; ++b) tokens.push_back(byte_character(static_cast<unsigned char>(b)));
  for (const char* left : {"a", "b", "ab", "\xC4\xA0", "1", "\xC3\x8C", "."}) {
    for (const char* right : {"a", "b", "ba", "1", "\xC4\xA3", "."}) {
      if (std::string(right) == "ba" && std::string(left) != "b") continue;
      merges.push_back(std::string(left) + " " + right);
      tokens.push_back(std::string(left) + right);
    }
  }
  std::vector<std::int32_t> types(tokens.size(), 1);
  tokens.insert(tokens.end(), {"<|a|>", "<|a|>b", "<u>"});
  types.insert(types.end(), {3, 3, 4});
  orcd::test::gguf_writer w;
  w.add("general.architecture", "llama").add("tokenizer.ggml.model", "gpt2").add("tokenizer.ggml.pre", pre);
  w.add("tokenizer.ggml.tokens", tokens).add("tokenizer.ggml.token_type", types);
  w.add("tokenizer.ggml.merges", merges);
  return load(w);
}

orcd::test::gguf_writer sentencepiece_vocabulary(const std::string& model) {
  std::vector<std::string> tokens{"<unk>", "<s>", "</s>"};
  std::vector<std::int32_t> types{2, 3, 3};
  std::vector<float> scores{0, 0, 0};
  const char* hex = "0123456789ABCDEF";
  for (int b = 0; b < 256; ++b) {
    tokens.push_back({'<', '0', 'x', hex[b / 16], hex[b % 16], '>'});
    types.push_back(6);
    scores.push_back(0);
  }
  for (const char* text : {"\xE2\x96\x81", "a", "b", "ab", "ba",
                           "\xE2\x96\x81"
                           "a",
                           "aba", "\xE2\x96\x81\xE2\x96\x81"}) {
    tokens.push_back(text);
    types.push_back(1);
    scores.push_back(-static_cast<float>(tokens.size() % 5));
  }
  orcd::test::gguf_writer w;
  w.add("general.architecture", "llama").add("tokenizer.ggml.model", model);
  w.add("tokenizer.ggml.tokens", tokens);
  w.add("tokenizer.ggml.token_type", types).add("tokenizer.ggml.scores", scores);
  return w;
}

std::unique_ptr<tokenizer> make_spm() {
  return load(sentencepiece_vocabulary("llama"));
}

std::unique_ptr<tokenizer> make_gemma4() {
  auto w = sentencepiece_vocabulary("gemma4");
  w.add("tokenizer.ggml.merges", std::vector<std::string>{"\u2581 a", "a b", "b a", "ab a", "\u2581 \u2581"});
  return load(w);
}

// One name for each list of rules, if possible one without NFC, which changes bytes. Those of SentencePiece's
// spelling have no rules.
std::vector<std::string> names_of_rules() {
  std::vector<std::string> names;
  std::set<std::vector<split_rule>> seen{{}};
  for (const bool nfc : {false, true}) {
    std::istringstream all{std::string(preset_names())};
    for (std::string name; all >> name;) {
      const auto preset = find_preset(name);
      if (preset->nfc == nfc && seen.insert(preset->stages).second) names.push_back(name);
    }
  }
  return names;
}

std::unique_ptr<tokenizer> make_wordpiece(bool cased) {
  const std::string mark = "\xE2\x96\x81";
  std::vector<std::string> tokens{"[UNK]", "[CLS]", "[SEP]", mark + "a", mark + "ab",
                                  "a",     "b",     "ba",    mark,       ","};
  if (cased) tokens.push_back(mark + "A");
  std::vector<std::int32_t> types(tokens.size(), 1);
  types[0] = 2;
  types[1] = types[2] = 3;
  orcd::test::gguf_writer w;
  w.add("general.architecture", "bert").add("tokenizer.ggml.model", "bert");
  w.add("tokenizer.ggml.tokens", tokens).add("tokenizer.ggml.token_type", types);
  w.add("tokenizer.ggml.unknown_token_id", std::uint32_t{0});
  return load(w);
}

void check(const tokenizer& t, std::string_view bytes, bool exact) {
  const auto tokens = t.encode(bytes, {false, false});
  if (exact) ORCD_ENSURE(t.decode(tokens, true) == bytes);
  for (const bool special : {true, false}) {
    for (const token_id id : t.encode(bytes, {special, true})) {
      ORCD_ENSURE(id >= 0 && static_cast<std::uint32_t>(id) < t.vocab_size());
    }
  }
  token_stream stream(t, {"ab", "\xC3\xA9"}, true);
  for (const char c : bytes) {
    if (stream.push(static_cast<token_id>(static_cast<unsigned char>(c)) * 3 - 2).stopped) break;
  }
  (void)stream.finish();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto names = names_of_rules();
  static const auto bpe = [] {
    std::vector<std::unique_ptr<tokenizer>> all;
    for (const auto& name : names) all.push_back(make_bpe(name));
    return all;
  }();
  static const auto spm = make_spm();
  static const auto gemma4 = make_gemma4();
  static const auto uncased = make_wordpiece(false);
  static const auto cased = make_wordpiece(true);
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t which = data[0] % names.size();
  check(*bpe[which], bytes, !find_preset(names[which])->nfc);
  // A literal U+2581 is SentencePiece's own spelling of a space.
  for (const auto* wordpiece : {&uncased, &cased}) check(**wordpiece, bytes, false);
  const bool exact = bytes.find("\xE2\x96\x81") == std::string_view::npos;
  check(*spm, bytes, exact);
  check(*gemma4, bytes, exact);
  return 0;
}
