#include "engine/text/vocabulary.hpp"

#include <bit>

#include "engine/text/token_hash.hpp"
#include "engine/text/utf8.hpp"

namespace orcd::engine {

namespace {

constexpr std::string_view metaspace = "\xE2\x96\x81";

// GPT-2's map: printable Latin-1 stands for itself, the other 68 bytes follow from U+0100.
const std::array<std::int16_t, 0x144>& byte_of_character() {
  static const auto table = [] {
    std::array<std::int16_t, 0x144> map;
    map.fill(-1);
    std::size_t next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      map[printable ? static_cast<std::size_t>(b) : next++] = static_cast<std::int16_t>(b);
    }
    return map;
  }();
  return table;
}

// The bytes of a SentencePiece spelling: spaces for U+2581.
void append_sentencepiece(std::string_view piece, std::string& out) {
  while (!piece.empty()) {
    if (piece.starts_with(metaspace)) {
      out.push_back(' ');
      piece.remove_prefix(metaspace.size());
    } else {
      out.push_back(piece.front());
      piece.remove_prefix(1);
    }
  }
}

bool is_literal(token_kind kind) {
  return kind == token_kind::control || kind == token_kind::user_defined || kind == token_kind::unknown;
}

bool is_findable(token_kind kind) {
  return kind == token_kind::normal || kind == token_kind::user_defined;
}

}  // namespace

bool append_byte_level(std::string_view piece, std::string& out) {
  const auto& map = byte_of_character();
  bool known = true;
  const char* p = piece.data();
  const char* const end = p + piece.size();
  while (p != end) {
    const utf8::decoded d = utf8::decode(p, end);
    if (d.code < map.size() && map[d.code] >= 0) {
      out.push_back(static_cast<char>(map[d.code]));
    } else {
      out.append(p, d.size);
      known = false;
    }
    p += d.size;
  }
  return known;
}

int parse_byte_piece(std::string_view piece) noexcept {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  const int high = digit(piece[3]);
  const int low = digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

result<vocabulary> vocabulary::make(std::span<const token_entry> tokens, spelling how) {
  const auto refuse = [](std::string text) { return error(errc::model_load_failed, std::move(text)); };
  if (tokens.empty()) return refuse("tokenizer: the vocabulary is empty");
  if (tokens.size() > max_tokens) {
    return refuse("tokenizer: " + std::to_string(tokens.size()) + " tokens, the limit is " +
                  std::to_string(max_tokens));
  }
  std::size_t total = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const token_entry& t = tokens[i];
    total += t.piece.size();
    if (t.piece.size() > max_piece_bytes || total > max_total_bytes) {
      return refuse("tokenizer: token " + std::to_string(i) + " has " + std::to_string(t.piece.size()) +
                    " bytes; the limits are " + std::to_string(max_piece_bytes) + " for one token and " +
                    std::to_string(max_total_bytes) + " for all");
    }
    if (t.kind == token_kind::byte && parse_byte_piece(t.piece) < 0) {
      return refuse("tokenizer: token " + std::to_string(i) +
                    " is of type byte but is not spelled <0xHH> with two hexadecimal digits");
    }
  }
  vocabulary v;
  v.by_bytes_ = how == spelling::byte_level;
  v.pieces_.reserve(total);
  v.bytes_.reserve(total);
  v.piece_ends_.push_back(0);
  v.byte_ends_.push_back(0);
  for (const token_entry& t : tokens) {
    v.pieces_.append(t.piece);
    v.piece_ends_.push_back(static_cast<std::uint32_t>(v.pieces_.size()));
    if (t.kind == token_kind::byte) {
      v.bytes_.push_back(static_cast<char>(parse_byte_piece(t.piece)));
    } else if (is_literal(t.kind)) {
      v.bytes_.append(t.piece);
    } else if (v.by_bytes_) {
      append_byte_level(t.piece, v.bytes_);
    } else {
      append_sentencepiece(t.piece, v.bytes_);
    }
    v.byte_ends_.push_back(static_cast<std::uint32_t>(v.bytes_.size()));
    v.kinds_.push_back(t.kind);
  }
  v.index(how);
  return v;
}

void vocabulary::index(spelling how) {
  slots_.resize(std::bit_ceil(2 * kinds_.size()));
  byte_tokens_.fill(-1);
  std::string scratch;
  // Normal tokens first, so that they win over tokens of another kind with the same spelling.
  for (const bool normal : {true, false}) {
    for (std::size_t i = 0; i < kinds_.size(); ++i) {
      const auto id = static_cast<token_id>(i);
      if (!is_findable(kinds_[i]) || (kinds_[i] == token_kind::normal) != normal) continue;
      if (how == spelling::sentencepiece) {
        insert(id, piece(id));
      } else {
        scratch.clear();
        if (append_byte_level(piece(id), scratch) && scratch == bytes(id)) insert(id, scratch);
      }
    }
  }
  for (std::size_t i = kinds_.size(); i-- > 0;) {
    const auto id = static_cast<token_id>(i);
    if (how == spelling::sentencepiece && kinds_[i] == token_kind::byte) {
      byte_tokens_[static_cast<unsigned char>(bytes(id)[0])] = id;
    }
  }
  if (how == spelling::byte_level) {
    for (int b = 0; b < 256; ++b) {
      const char c = static_cast<char>(b);
      byte_tokens_[static_cast<std::size_t>(b)] = find({&c, 1});
    }
  }
}

void vocabulary::insert(token_id id, std::string_view key) {
  if (key.empty() || find(key) >= 0) return;
  const std::uint64_t h = hash_bytes(key);
  std::size_t at = h & (slots_.size() - 1);
  while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
  slots_[at] = {static_cast<std::uint32_t>(h >> 32), id};
  longest_ = std::max(longest_, key.size());
}

token_id vocabulary::find(std::string_view text) const noexcept {
  if (text.size() > longest_) return -1;
  const std::uint64_t h = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(h >> 32);
  for (std::size_t at = h & (slots_.size() - 1); slots_[at].id >= 0; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].tag != tag) continue;
    if ((by_bytes_ ? bytes(slots_[at].id) : piece(slots_[at].id)) == text) return slots_[at].id;
  }
  return -1;
}

token_id vocabulary::find_piece(std::string_view wanted) const noexcept {
  for (std::uint32_t i = 0; i < size(); ++i) {
    const auto id = static_cast<token_id>(i);
    if (kinds_[i] != token_kind::absent && piece(id) == wanted) return id;
  }
  return -1;
}

std::string_view vocabulary::slice(const std::string& from, const std::vector<std::uint32_t>& ends,
                                   token_id id) noexcept {
  const auto i = static_cast<std::size_t>(id);
  if (id < 0 || i + 1 >= ends.size()) return {};
  return std::string_view(from).substr(ends[i], ends[i + 1] - ends[i]);
}

}  // namespace orcd::engine
