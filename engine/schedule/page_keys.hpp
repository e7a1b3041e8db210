// What sequences are compared by in the prefix tree: their tokens, with the words of a medium's digest before
// the first of its positions, so that two media are the same only where all of their pixels are. Of a
// sequence without media its tokens are its keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::engine {

/// A word of a digest: it takes no position.
[[nodiscard]] constexpr bool is_media_word(token_id key) noexcept {
  return key > media_token && key < media_token / 2;
}

[[nodiscard]] inline std::uint32_t positions_in(std::span<const token_id> keys) noexcept {
  return static_cast<std::uint32_t>(
      std::count_if(keys.begin(), keys.end(), [](token_id key) { return !is_media_word(key); }));
}

/// The keys of the first so many positions, of which there are at least as many.
[[nodiscard]] inline std::span<const token_id> keys_of(std::span<const token_id> keys,
                                                       std::uint32_t positions) noexcept {
  std::size_t at = 0;
  for (std::uint32_t left = positions; left > 0 && at < keys.size(); ++at)
    if (!is_media_word(keys[at])) --left;
  return keys.first(at);
}

/// The mark of a medium whose first position is `position`. `digest` has 64 hexadecimal digits.
[[nodiscard]] inline media_mark mark_of(std::uint32_t position, std::string_view digest) noexcept {
  constexpr std::size_t bits = 29;
  media_mark out{position, {}};
  std::array<std::uint32_t, 9> words{};
  for (std::size_t i = 0; i < 256; ++i) {
    const char digit = i / 4 < digest.size() ? digest[i / 4] : '0';
    const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
    if ((value >> (3 - i % 4) & 1) != 0) words[i / bits] |= 1U << i % bits;
  }
  for (std::size_t i = 0; i < words.size(); ++i)
    out.words[i] = media_token + 1 + static_cast<token_id>(words[i]);
  return out;
}

/// The keys of a sequence that begins with these tokens. They and `wish` outlive the object.
class page_keys {
 public:
  page_keys(const cache_request& wish, std::span<const token_id> tokens) : wish_(wish), tokens_(tokens) {}

  /// Of `count` positions from `first` on; valid until the next call.
  [[nodiscard]] std::span<const token_id> of(std::size_t first, std::size_t count) {
    const auto own = tokens_.subspan(first, count);
    if (wish_.media.empty()) return own;
    keys_.clear();
    std::size_t done = first;
    for (const media_mark& mark : wish_.media) {
      if (mark.position < first || mark.position >= first + count) continue;
      keys_.insert(keys_.end(), tokens_.begin() + static_cast<std::ptrdiff_t>(done),
                   tokens_.begin() + static_cast<std::ptrdiff_t>(mark.position));
      keys_.insert(keys_.end(), mark.words.begin(), mark.words.end());
      done = mark.position;
    }
    keys_.insert(keys_.end(), tokens_.begin() + static_cast<std::ptrdiff_t>(done),
                 tokens_.begin() + static_cast<std::ptrdiff_t>(first + count));
    return keys_;
  }

 private:
  const cache_request& wish_;
  std::span<const token_id> tokens_;
  std::vector<token_id> keys_;
};

/// Whether two sequences have the same media before `end`.
[[nodiscard]] inline bool have_same_media(const cache_request& a, const cache_request& b,
                                          std::uint32_t end) noexcept {
  const auto before = [end](const std::vector<media_mark>& of) {
    const auto last = std::find_if(of.begin(), of.end(), [end](const auto& m) { return m.position >= end; });
    return std::span(of).first(static_cast<std::size_t>(last - of.begin()));
  };
  const auto x = before(a.media), y = before(b.media);
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const media_mark& m, const media_mark& n) {
    return m.position == n.position && m.words == n.words;
  });
}

}  // namespace orcd::engine
