// Compiled grammars of the last requests, and the reasons of refused ones: most clients send the same schema
// again and again, good or bad. Bounded by entries and bytes; the least recently used goes first. Grammars
// and refusals are bounded apart, so that a flood of bad schemas evicts no good one. io thread only. Private
// to net/.
#pragma once

#include <algorithm>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/grammar/grammar.hpp"
#include "net/http/signal.hpp"

namespace orcd::net {

using grammar_program = std::shared_ptr<const engine::grammar::program>;

/// The most recently used values by key, bounded by their number and by the sum of their costs.
template <class Value>
class recently_used {
 public:
  recently_used(std::size_t entries_max, std::size_t cost_max)
      : entries_max_(entries_max), cost_max_(cost_max) {}

  /// Null when the key is not known; valid until the next keep().
  [[nodiscard]] const Value* find(const std::string& key) {
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.key == key; });
    if (found == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found);
    return &found->value;
  }
  /// Keeps a value and evicts the least recently used ones beyond the bounds. A value that costs more than
  /// all may is not kept.
  void keep(std::string key, Value value, std::size_t cost) {
    if (cost > cost_max_ || find(key) != nullptr) return;
    entries_.push_front({std::move(key), std::move(value), cost});
    cost_ += cost;
    while (entries_.size() > entries_max_ || cost_ > cost_max_) {
      cost_ -= entries_.back().cost;
      entries_.pop_back();
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] std::size_t cost() const noexcept { return cost_; }

 private:
  struct entry {
    std::string key;
    Value value;
    std::size_t cost;
  };
  std::size_t entries_max_, cost_max_;
  std::size_t cost_ = 0;
  std::list<entry> entries_;  ///< the most recently used first
};

class grammar_cache {
 public:
  static constexpr std::size_t entries_max = 32;
  static constexpr std::size_t bytes_max = 64U << 20U;  ///< of all programs together
  static constexpr std::size_t refusals_max = 256;
  static constexpr std::size_t refusal_bytes_max = 256U << 10U;

  /// The grammar, or the error that it was refused with; nullopt when the key is not known.
  [[nodiscard]] std::optional<engine::result<grammar_program>> find(const std::string& key);
  /// Of the errors keeps only invalid_request, which the schema itself causes: any other may not come again.
  void keep(std::string key, const engine::result<grammar_program>& made);
  /// A grammar that a request compiles and others wait for.
  struct work {
    bool over = false;
    std::vector<std::shared_ptr<signal>> waiting{};         ///< raised when it is over
    std::optional<engine::result<grammar_program>> made{};  ///< nullopt: the request has gone
  };
  /// The work that somebody has begun, or a new one: `begun` says whether it is the caller's, who calls
  /// end_work() whatever comes of it.
  struct joined_work {
    std::shared_ptr<work> what;
    bool begun = false;
  };
  [[nodiscard]] joined_work join_work(const std::string& key) {
    const auto [place, begun] = works_.try_emplace(key);
    if (begun) place->second = std::make_shared<work>();
    return {place->second, begun};
  }
  void end_work(const std::string& key) {
    const auto ended = works_.extract(key);
    if (ended.empty()) return;
    ended.mapped()->over = true;
    for (const auto& one : ended.mapped()->waiting) one->raise();
  }
  [[nodiscard]] std::size_t size() const noexcept { return programs_.size(); }
  [[nodiscard]] std::size_t refusals() const noexcept { return refusals_.size(); }

 private:
  recently_used<grammar_program> programs_{entries_max, bytes_max};
  recently_used<engine::error> refusals_{refusals_max, refusal_bytes_max};
  std::map<std::string, std::shared_ptr<work>> works_;  ///< of grammars that are being compiled
};

}  // namespace orcd::net
