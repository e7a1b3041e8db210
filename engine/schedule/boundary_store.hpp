// Boundaries: positions of known token sequences from which a job can go on in every group, because the pages
// that the windows reach back to are kept. A boundary belongs to a node of the prefix tree: it lies behind
// the first `offset` tokens of the node's page. Its pages are kept and given up together, never one of them:
// what is left of a window is of no use.
//
// They are found by tokens, as the tree's nodes are, and also where the node's page goes on otherwise than
// the sequence that is looked for. The next to go is one that was passed (job_windows) and not used since,
// else any; the least recently used one of those; those on pinned nodes go last. GPU thread only.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/prefix_tree.hpp"

namespace orcd::engine {

struct boundary {
  prefix_tree::node* at = nullptr;
  std::uint32_t offset = 0;    ///< 1 to a page's positions
  std::uint32_t position = 0;  ///< in the sequence: the first that is left to compute
  /// Of each further group, those that pages_before() says (engine/base/kv_window.hpp).
  std::array<std::vector<kv_page>, further_groups_max> pages{};
  std::uint32_t uses = 0;  ///< jobs that began there
  bool passed = false;
};

class boundary_store {
 public:
  /// The deepest boundary at or below what `known` has of `tokens`, which are those that the tree was asked
  /// for. Null: there is none.
  [[nodiscard]] const boundary* deepest(const prefix_tree::match& known, const std::string& salt,
                                        std::span<const token_id> tokens, std::uint32_t page_positions) const;
  [[nodiscard]] const boundary* find(const prefix_tree::node* at, std::uint32_t offset) const;
  /// The same, or one behind the same tokens in another node.
  [[nodiscard]] const boundary* find_like(const prefix_tree::node* at, std::uint32_t offset) const;
  /// There is none with this node and offset.
  void add(boundary made);
  /// A job begins there, or would have made it: it is the last to go among those like it.
  void touch(const boundary* used, bool begins);
  /// A deeper one is there for who would have come back to it, unless `uses_max` jobs began there already.
  void pass(const boundary* one, std::uint32_t uses_max);

  /// The next to go for which `helps` holds; null: none.
  template <class Condition>
  [[nodiscard]] const boundary* next_to_go(const Condition& helps) const {
    std::array<const boundary*, 3> first{};  // passed, others, pinned
    for (const boundary& one : all_) {
      const std::size_t kind = prefix_tree::is_pinned(one.at) ? 2 : one.passed ? 0 : 1;
      if (first[kind] != nullptr || !helps(one)) continue;
      if (kind == 0) return &one;
      first[kind] = &one;
    }
    return first[1] != nullptr ? first[1] : first[2];
  }
  /// Takes it out.
  [[nodiscard]] boundary take(const boundary* one);
  /// One that belongs to the node; null: none.
  [[nodiscard]] const boundary* any_at(const prefix_tree::node* at) const;
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(all_.size()); }

 private:
  using order = std::list<boundary>;
  using by_parent = std::multimap<const prefix_tree::node*, order::iterator>;

  /// One of a node with the same parent for which `wanted` holds; null: none.
  template <class Condition>
  [[nodiscard]] const boundary* any_beside(const prefix_tree::node* at, const Condition& wanted) const;
  [[nodiscard]] by_parent::iterator entry_of(const boundary* one);

  order all_;        ///< least recently used first
  by_parent below_;  ///< by the parent of the node: those that one may find behind the same pages
};

}  // namespace orcd::engine
