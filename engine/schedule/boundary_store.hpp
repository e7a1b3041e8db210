// Boundaries: positions of known token sequences from which a job can go on in every group, because the pages
// that the windows reach back to are kept. A boundary belongs to a node of the prefix tree: it lies behind
// the first `offset` tokens of the node's page. Its pages are kept and given up together, never one of them:
// what is left of a window is of no use.
//
// They are found by tokens, as the tree's nodes are, and also where the node's page goes on otherwise than
// the sequence that is looked for. The least recently used one is the next to go, those on pinned nodes last.
// GPU thread only.
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
};

class boundary_store {
 public:
  /// The deepest boundary at or below what `known` has of `tokens`, which are those that the tree was asked
  /// for. Null: there is none.
  [[nodiscard]] const boundary* deepest(const prefix_tree::match& known, const std::string& salt,
                                        std::span<const token_id> tokens, std::uint32_t page_positions) const;
  [[nodiscard]] const boundary* find(const prefix_tree::node* at, std::uint32_t offset) const;
  /// There is none with this node and offset.
  void add(boundary made);
  /// It is the last to go among those like it.
  void touch(const boundary* used);

  /// The next to go for which `helps` holds; null: none.
  template <class Condition>
  [[nodiscard]] const boundary* next_to_go(const Condition& helps) const {
    const boundary* pinned = nullptr;
    for (const boundary& one : all_) {
      if (pinned != nullptr && prefix_tree::is_pinned(one.at)) continue;
      if (!helps(one)) continue;
      if (!prefix_tree::is_pinned(one.at)) return &one;
      pinned = &one;
    }
    return pinned;
  }
  /// Takes it out.
  [[nodiscard]] boundary take(const boundary* one);
  /// One that belongs to the node; null: none.
  [[nodiscard]] const boundary* any_at(const prefix_tree::node* at) const;
  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(all_.size()); }

 private:
  using order = std::list<boundary>;

  order all_;  ///< least recently used first
  /// By the parent of the node: those that one may find behind the same pages.
  std::multimap<const prefix_tree::node*, order::iterator> below_;
};

}  // namespace orcd::engine
