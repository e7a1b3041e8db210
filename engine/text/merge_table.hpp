// Which two adjacent tokens merge into which token, and with which rank. Open addressing over packed id
// pairs.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "engine/base/ids.hpp"
#include "engine/text/token_hash.hpp"

namespace orcd::engine {

class merge_table {
 public:
  static constexpr std::uint32_t no_rank = std::numeric_limits<std::uint32_t>::max();

  struct merge {
    std::uint32_t rank = no_rank;  ///< the lower, the earlier
    token_id merged = -1;
  };

  /// Room for `merges` entries; more may not be added.
  explicit merge_table(std::size_t merges)
      : slots_(std::bit_ceil(merges * 3 / 2 + 2)), mask_(slots_.size() - 1) {}

  /// Of several merges of one pair, the first counts.
  void add(token_id left, token_id right, merge m) {
    slot& s = slots_[probe(pack(left, right))];
    if (s.key == empty) s = {pack(left, right), m};
  }

  /// rank == no_rank when the two do not merge.
  [[nodiscard]] merge find(token_id left, token_id right) const noexcept {
    return slots_[probe(pack(left, right))].value;
  }

 private:
  static constexpr std::uint64_t empty = std::numeric_limits<std::uint64_t>::max();
  struct slot {
    std::uint64_t key = empty;
    merge value;
  };
  static std::uint64_t pack(token_id left, token_id right) noexcept {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  [[nodiscard]] std::size_t probe(std::uint64_t key) const noexcept {
    std::size_t at = hash_pair(key) & mask_;
    while (slots_[at].key != key && slots_[at].key != empty) at = (at + 1) & mask_;
    return at;
  }

  std::vector<slot> slots_;
  std::size_t mask_;
};

}  // namespace orcd::engine
