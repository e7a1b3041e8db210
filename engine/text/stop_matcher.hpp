// Finds stop strings in a text stream: a stop string is never emitted, and no more text is held back than may
// be the beginning of one. An Aho-Corasick automaton: the cost per byte does not grow with the number of stop
// strings. Not thread-safe; one per stream. Source: Aho and Corasick, "Efficient string matching" (1975).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/byte_trie.hpp"

namespace orcd::engine {

class stop_matcher {
 public:
  /// Empty stop strings are ignored (request validation refuses them).
  explicit stop_matcher(std::vector<std::string> stops);

  struct output {
    std::string text;      ///< safe to emit now
    bool stopped = false;  ///< a stop string was completed; nothing more will come
    std::string stop{};    ///< that stop string, once
  };
  /// The stop string that is completed first wins; of those completed by the same byte, the longest.
  [[nodiscard]] output push(std::string_view text);
  /// The held-back text at the end of the stream.
  [[nodiscard]] std::string finish();

 private:
  struct state {
    std::uint32_t fail = 0;     // the longest proper suffix that begins a stop string
    std::uint32_t depth = 0;    // bytes of a stop string matched so far
    std::uint32_t matched = 0;  // length of the longest stop string that ends here
  };
  void link();
  [[nodiscard]] std::uint32_t step(std::uint32_t at, unsigned char byte) const noexcept;

  byte_trie trie_;
  std::vector<state> states_;
  std::string held_;  // the last depth-of-state_ bytes seen
  std::uint32_t state_ = byte_trie::root;
  bool stopped_ = false;
};

}  // namespace orcd::engine
