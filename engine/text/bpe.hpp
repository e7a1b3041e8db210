// Byte-pair encoding of one word that is already a row of tokens: merges the pair of lowest rank, the
// leftmost on ties, until no pair merges. O(n^2) with a tiny constant for short words, O(n log n) for long
// ones. Source: Sennrich et al. 2016; Hugging Face `BPE` model semantics.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/text/merge_table.hpp"

namespace orcd::engine {

/// Buffers that one encode() call reuses from word to word.
class bpe_scratch {
 public:
  std::vector<token_id> symbols;  ///< in: the word's first tokens; out: the result

  /// Merges `symbols` in place.
  void merge(const merge_table& merges);

 private:
  struct node {
    token_id id;
    std::uint32_t prev;
    std::uint32_t next;
  };
  struct candidate {
    std::uint64_t order;  // rank, then position: the smallest goes first
    token_id left;
    token_id right;
    token_id merged;
  };
  void merge_short(const merge_table& merges);
  void merge_long(const merge_table& merges);
  void offer(const merge_table& merges, std::uint32_t left);

  std::vector<merge_table::merge> pairs_;
  std::vector<node> nodes_;
  std::vector<candidate> heap_;
};

}  // namespace orcd::engine
