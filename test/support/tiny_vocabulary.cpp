#include "test/support/tiny_vocabulary.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace orcd::test {
namespace {

/// Words and word parts that the merges build up, most frequent first. '_' stands for the space.
constexpr std::array<const char*, 40> pieces{
    "_t", "he", "in", "_a",   "_the", "er",    "on",  "re",   "_s",     "at",  "_w",  "nd",  "en", "_and",
    "_o", "_b", "or", "is",   "_of",  "an",    "ing", "it",   "_in",    "_to", "ou",  "ed",  "es", "_f",
    "_c", "_p", "ll", "_you", "_is",  "hello", "wor", "_wor", "_world", "ld",  "_GP", "_GPU"};

std::string utf8(unsigned code_point) {
  if (code_point < 0x80) return {static_cast<char>(code_point)};
  return {static_cast<char>(0xC0U | code_point >> 6U), static_cast<char>(0x80U | (code_point & 0x3FU))};
}

/// The printable character that stands for a byte in a byte-level vocabulary.
std::array<std::string, 256> byte_characters() {
  std::array<std::string, 256> out;
  unsigned next = 0x100;
  for (unsigned b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    out[b] = utf8(printable ? b : next);
    if (!printable) ++next;
  }
  return out;
}

std::string with_space(std::string_view piece, const std::string& space) {
  return piece.starts_with('_') ? space + std::string(piece.substr(1)) : std::string(piece);
}

void add(tiny_vocabulary& v, std::string token, std::int32_t type, float score = 0.0F) {
  if (std::find(v.tokens.begin(), v.tokens.end(), token) != v.tokens.end()) return;
  v.tokens.push_back(std::move(token));
  v.types.push_back(type);
  v.scores.push_back(score);
}

std::int32_t id_of(const tiny_vocabulary& v, std::string_view token) {
  const auto at = std::find(v.tokens.begin(), v.tokens.end(), token);
  return at == v.tokens.end() ? -1 : static_cast<std::int32_t>(at - v.tokens.begin());
}

/// Makes `piece` reachable: splits it where both halves exist, the left one as long as possible, and
/// adds the missing left half first when there is no such place.
void add_merge(tiny_vocabulary& v, const std::string& piece, std::size_t first_char) {
  if (piece.size() <= first_char || id_of(v, piece) >= 0) return;
  for (std::size_t cut = piece.size() - 1; cut >= first_char; --cut) {
    if (id_of(v, piece.substr(0, cut)) >= 0 && id_of(v, piece.substr(cut)) >= 0) {
      v.merges.push_back(piece.substr(0, cut) + " " + piece.substr(cut));
      return add(v, piece, 1);
    }
  }
  add_merge(v, piece.substr(0, piece.size() - 1), first_char);
  add_merge(v, piece, first_char);
}

void add_wordpiece(gguf_writer& writer, const tiny_vocabulary& vocabulary) {
  writer.add("tokenizer.ggml.model", "bert");
  writer.add("tokenizer.ggml.tokens", vocabulary.tokens);
  writer.add("tokenizer.ggml.token_type", vocabulary.types);
  writer.add("tokenizer.ggml.unknown_token_id", std::uint32_t{1});
  writer.add("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(vocabulary.bos));
  writer.add("tokenizer.ggml.seperator_token_id", static_cast<std::uint32_t>(vocabulary.eos));
}

}  // namespace

tiny_vocabulary make_bpe_vocabulary() {
  tiny_vocabulary v;
  const auto characters = byte_characters();
  for (const std::string& c : characters) add(v, c, 1);
  const std::string& space = characters[' '];
  for (const char* piece : pieces) {
    add_merge(v, with_space(piece, space), *piece == '_' ? space.size() : 1);
  }
  add(v, "<|endoftext|>", 3);
  add(v, "<|im_start|>", 3);
  add(v, "<|im_end|>", 3);
  v.scores.clear();
  v.bos = id_of(v, "<|endoftext|>");
  v.eos = id_of(v, "<|im_end|>");
  return v;
}

tiny_vocabulary make_spm_vocabulary() {
  tiny_vocabulary v;
  add(v, "<unk>", 2);
  add(v, "<s>", 3);
  add(v, "</s>", 3);
  for (unsigned b = 0; b < 256; ++b) {
    std::array<char, 8> text{};
    std::snprintf(text.data(), text.size(), "<0x%02X>", b);
    add(v, text.data(), 6);
  }
  const std::string space = "\xE2\x96\x81";
  float score = 0.0F;
  for (const char* piece : pieces) {
    const std::string whole = with_space(piece, space);
    // Every prefix is a piece too: SentencePiece builds a word by merging pairs that are themselves pieces.
    for (std::size_t n = *piece == '_' ? space.size() + 1 : 2; n <= whole.size(); ++n) {
      add(v, whole.substr(0, n), 1, score -= 1.0F);
    }
  }
  add(v, space, 1, score -= 1.0F);
  for (char c = '!'; c <= '~'; ++c) add(v, std::string(1, c), 1, score -= 1.0F);
  add(v, "<|im_start|>", 3);
  add(v, "<|im_end|>", 3);
  v.bos = id_of(v, "<s>");
  v.eos = id_of(v, "<|im_end|>");
  return v;
}

tiny_vocabulary make_wordpiece_vocabulary() {
  const std::string mark = "\xE2\x96\x81";
  tiny_vocabulary v;
  v.wordpiece = true;
  for (const char* special : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}) add(v, special, 3);
  v.types[1] = 2;
  for (char c = '!'; c <= '~'; ++c) {
    if (c >= 'A' && c <= 'Z') continue;
    add(v, mark + c, 1);
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) add(v, std::string(1, c), 1);
  }
  for (const char* piece : pieces) {
    const std::string text = piece;
    if (text.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos)
      add(v, with_space(text, mark), 1);
  }
  v.scores.clear();
  v.bos = id_of(v, "[CLS]");
  v.eos = id_of(v, "[SEP]");
  return v;
}

void add_picture_tokens(tiny_vocabulary& vocabulary) {
  const bool scored = !vocabulary.scores.empty();
  for (const char* token : {"<image>", "<fake_token_around_image>", "<global-img>", "<start_of_image>",
                            "<image_soft_token>", "<end_of_image>"})
    add(vocabulary, token, 3);
  for (const char row : {'1', '2', '3', '4'})
    for (const char column : {'1', '2', '3', '4'})
      add(vocabulary, std::string("<row_") + row + "_col_" + column + ">", 3);
  for (const char* token : {"<|vision_start|>", "<|image_pad|>", "<|vision_end|>"}) add(vocabulary, token, 3);
  for (const char* token : {"[AUDIO]", "[BEGIN_AUDIO]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"})
    add(vocabulary, token, 3);
  if (!scored) vocabulary.scores.clear();
}

void pad_vocabulary(tiny_vocabulary& vocabulary, std::uint32_t size) {
  const bool scored = !vocabulary.scores.empty();
  while (vocabulary.tokens.size() < size) {
    vocabulary.tokens.push_back("[PAD" + std::to_string(vocabulary.tokens.size()) + "]");
    vocabulary.types.push_back(5);
    if (scored) vocabulary.scores.push_back(-1000.0F);
  }
}

void add_vocabulary(gguf_writer& writer, const tiny_vocabulary& vocabulary, const std::string& pre) {
  if (vocabulary.wordpiece) return add_wordpiece(writer, vocabulary);
  const bool spm = !vocabulary.scores.empty();
  writer.add("tokenizer.ggml.model", spm ? "llama" : "gpt2");
  if (!spm) writer.add("tokenizer.ggml.pre", pre);
  writer.add("tokenizer.ggml.tokens", vocabulary.tokens);
  if (spm) writer.add("tokenizer.ggml.scores", vocabulary.scores);
  writer.add("tokenizer.ggml.token_type", vocabulary.types);
  if (!spm) writer.add("tokenizer.ggml.merges", vocabulary.merges);
  writer.add("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(vocabulary.bos));
  writer.add("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(vocabulary.eos));
  writer.add("tokenizer.ggml.add_bos_token", spm);
  writer.add("tokenizer.ggml.add_eos_token", false);
  writer.add(
      "tokenizer.chat_template",
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + "
      "'<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
      "{% endif %}");
}

}  // namespace orcd::test
