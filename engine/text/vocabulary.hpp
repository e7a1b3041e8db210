// The tokens of a model: spelling, bytes and kind by id, and id by text. Immutable once built.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/ids.hpp"

namespace orcd::engine {

/// The values 1..6 are those of tokenizer.ggml.token_type.
enum class token_kind : std::uint8_t {
  absent = 0,
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

/// How the spelling of a token stands for its bytes.
enum class spelling {
  byte_level,     ///< GPT-2's printable stand-in for each byte; find() takes the bytes
  sentencepiece,  ///< U+2581 for a space, <0xHH> for a byte; find() takes the spelling
};

struct token_entry {
  std::string_view piece;
  token_kind kind = token_kind::absent;
};

class vocabulary {
 public:
  static constexpr std::size_t max_tokens = 1u << 20;
  static constexpr std::size_t max_piece_bytes = 65'535;
  static constexpr std::size_t max_total_bytes = 256u << 20;

  /// Copies the entries. Errors name the limit and the token. Of several tokens with one spelling, find()
  /// gives the lowest normal id.
  [[nodiscard]] static result<vocabulary> make(std::span<const token_entry> tokens, spelling how);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(kinds_.size()); }
  [[nodiscard]] bool contains(token_id id) const noexcept {
    return id >= 0 && static_cast<std::uint32_t>(id) < size();
  }
  [[nodiscard]] std::string_view piece(token_id id) const noexcept { return slice(pieces_, piece_ends_, id); }
  /// What the token prints: its bytes, or the literal text of a control or user-defined token.
  [[nodiscard]] std::string_view bytes(token_id id) const noexcept { return slice(bytes_, byte_ends_, id); }
  [[nodiscard]] token_kind kind(token_id id) const noexcept {
    return contains(id) ? kinds_[static_cast<std::size_t>(id)] : token_kind::absent;
  }
  void set_kind(token_id id, token_kind kind) noexcept { kinds_[static_cast<std::size_t>(id)] = kind; }

  /// The token with this text (see `spelling`), or -1. Only normal and user-defined ones are found.
  [[nodiscard]] token_id find(std::string_view text) const noexcept;
  /// find() finds no text that is longer than this.
  [[nodiscard]] std::size_t longest() const noexcept { return longest_; }
  /// The token of a single byte, or -1: in byte_level its character, else <0xHH>.
  [[nodiscard]] token_id of_byte(unsigned char byte) const noexcept { return byte_tokens_[byte]; }
  /// Any token spelled like this, of any kind, or -1. Linear: for loading only.
  [[nodiscard]] token_id find_piece(std::string_view piece) const noexcept;

 private:
  vocabulary() = default;
  static std::string_view slice(const std::string& from, const std::vector<std::uint32_t>& ends,
                                token_id id) noexcept;
  void index(spelling how);
  void insert(token_id id, std::string_view key);

  struct slot {
    std::uint32_t tag = 0;  // upper half of the hash
    token_id id = -1;
  };
  std::string pieces_;
  std::string bytes_;
  std::vector<std::uint32_t> piece_ends_;  // entry i is [ends[i], ends[i + 1])
  std::vector<std::uint32_t> byte_ends_;
  std::vector<token_kind> kinds_;
  std::vector<slot> slots_;  // open addressing, a power of two
  std::array<token_id, 256> byte_tokens_{};
  std::size_t longest_ = 0;
  bool by_bytes_ = true;
};

/// The bytes that a byte-level spelling stands for; false when a character stands for no byte, which
/// is then kept as its own UTF-8.
bool append_byte_level(std::string_view piece, std::string& out);

/// The value of "<0xHH>", or -1 when the spelling is anything else.
[[nodiscard]] int parse_byte_piece(std::string_view piece) noexcept;

}  // namespace orcd::engine
