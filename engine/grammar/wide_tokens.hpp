// What a state allows whatever calls its rule, found by one walk over a vocabulary and kept with the grammar,
// so that the next job with the same grammar has it at once. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::engine::grammar {

using mask_words = std::vector<std::uint32_t>;

/// What a wide state allows by itself. Tokens that stay within its rule are in `within`; where a token may
/// end the rule, `ends` says after how many characters and at which node, and the rest depends on the caller.
struct wide_tokens {
  struct end {
    std::uint32_t node = 0;
    std::uint32_t characters = 0;
  };
  mask_words within;
  std::vector<end> ends;
  /// For the body of a string: the characters that each token of `within` begins, most first.
  std::vector<std::pair<std::uint32_t, token_id>> characters;
};

/// Of one grammar. Emptied when it is full: a grammar that needs more is walked again.
class wide_cache {
 public:
  static constexpr std::size_t entries_max = 128;
  using key = std::pair<std::uint64_t, std::uint32_t>;  ///< of the table, and the state
  [[nodiscard]] std::shared_ptr<const wide_tokens> find(key which, const std::function<wide_tokens()>& make) {
    const std::lock_guard lock(mutex_);
    const auto known = entries_.find(which);
    if (known != entries_.end()) return known->second;
    if (entries_.size() >= entries_max) entries_.clear();
    return entries_[which] = std::make_shared<const wide_tokens>(make());
  }

 private:
  std::mutex mutex_;
  std::map<key, std::shared_ptr<const wide_tokens>> entries_;
};

}  // namespace orcd::engine::grammar
