// The tokens that a state allows whatever calls its rule, found by one walk over a vocabulary and kept with
// the grammar for its next jobs. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
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

/// The tokens that a wide state allows by itself. Tokens that stay within its rule are in `within`; where a
/// token may end the rule, `ends` says after how many characters and at which node, and the rest depends on
/// the caller.
struct wide_tokens {
  struct end {
    std::uint32_t node = 0;
    std::uint32_t characters = 0;
  };
  mask_words within;
  std::uint64_t work = 0;  ///< nodes visited to find it
  std::vector<end> ends;
  /// For the body of a string: how many characters each token of `within` begins, most first.
  std::vector<std::pair<std::uint32_t, token_id>> characters;
};

/// The cache of one grammar. Emptied when it, or all caches together, are full; what is needed again is
/// computed again. While other caches take all memory, nothing is kept.
class wide_cache {
 public:
  static constexpr std::size_t entries_max = 128;
  static constexpr std::size_t bytes_max = 32U << 20U;
  static constexpr std::size_t bytes_of_all_max = 128U << 20U;
  using key = std::pair<std::uint64_t, std::uint32_t>;  ///< the table's number(), and the state

  wide_cache() = default;
  wide_cache(const wide_cache&) = delete;
  wide_cache& operator=(const wide_cache&) = delete;
  ~wide_cache() { empty(); }

  [[nodiscard]] std::shared_ptr<const wide_tokens> find(key which, const std::function<wide_tokens()>& make) {
    const std::lock_guard lock(mutex_);
    const auto known = entries_.find(which);
    if (known != entries_.end()) return known->second;
    const auto made = std::make_shared<const wide_tokens>(make());
    const std::size_t more = bytes_of(*made);
    if (entries_.size() >= entries_max || bytes_ + more > bytes_max || all_ + more > bytes_of_all_max)
      empty();
    if (more > bytes_max || all_ + more > bytes_of_all_max) return made;
    bytes_ += more;
    all_ += more;
    return entries_[which] = made;
  }
  [[nodiscard]] std::size_t bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_;
  }

 private:
  static std::size_t bytes_of(const wide_tokens& what) noexcept {
    return sizeof(wide_tokens) + what.within.capacity() * sizeof(std::uint32_t) +
           what.ends.capacity() * sizeof(wide_tokens::end) +
           what.characters.capacity() * sizeof(std::pair<std::uint32_t, token_id>);
  }
  void empty() noexcept {
    entries_.clear();
    all_ -= bytes_;
    bytes_ = 0;
  }

  static inline std::atomic<std::size_t> all_{0};
  std::mutex mutex_;
  std::map<key, std::shared_ptr<const wide_tokens>> entries_;
  std::size_t bytes_ = 0;
};

}  // namespace orcd::engine::grammar
