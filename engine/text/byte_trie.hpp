// A trie over byte strings: a child lookup costs one probe at the root and a short binary search below it.
// Immutable once built. Used to find special tokens and stop strings.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace orcd::engine {

class byte_trie {
 public:
  static constexpr std::uint32_t root = 0;
  static constexpr std::uint32_t none = 0;  ///< no child: the root is never one

  byte_trie();

  /// Adds `key` (not empty) and returns its node; the same key gives the same node.
  std::uint32_t add(std::string_view key);

  [[nodiscard]] std::uint32_t child(std::uint32_t node, unsigned char byte) const noexcept;
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(edges_.size()); }
  [[nodiscard]] bool starts_with(unsigned char byte) const noexcept { return first_[byte] != none; }

  struct edge {
    unsigned char byte;
    std::uint32_t target;
  };
  [[nodiscard]] const std::vector<edge>& edges(std::uint32_t node) const noexcept { return edges_[node]; }

 private:
  std::array<std::uint32_t, 256> first_{};
  std::vector<std::vector<edge>> edges_;  // of each node, sorted by byte
};

}  // namespace orcd::engine
