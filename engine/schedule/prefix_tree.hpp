// Which pages of the KV cache hold which tokens: one tree over token ids for each salt. A node owns one page
// and the tokens in it; only a full page has pages after it. What matches is decided by comparing tokens.
//
// A full page is shared as it is; of a page that matches in part, the matching positions can be copied.
// Nodes in use are counted and stay. The others are given up least recently used first, from the leaves,
// those with pins last. GPU thread only. Source: Zheng et al. 2312.07104 (a radix tree over KV); seed 002
// (prefix caches).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::engine {

class prefix_tree {
 public:
  struct node;

  /// What the tree holds of a sequence's beginning.
  struct match {
    std::vector<node*> whole;     ///< full pages, in order
    node* part = nullptr;         ///< the page that matches best after them
    std::uint32_t positions = 0;  ///< of `part`; 0 when there is none
  };

  /// The node that stands for the tokens now, and the page that the tree does not need: the given one if it
  /// has these tokens already, or the shorter page that the given one replaces.
  struct insertion {
    node* at = nullptr;
    std::optional<kv_page> unused;
  };

  /// `on_dropped` is told of every pinned node before it goes.
  prefix_tree(std::uint32_t page_positions, std::function<void(const node*)> on_dropped);
  ~prefix_tree();

  [[nodiscard]] match find(const std::string& salt, std::span<const token_id> tokens) const;
  /// A page with `tokens`, 1 to page_positions of them, after `parent`'s; null: at the beginning.
  insertion insert(const std::string& salt, node* parent, std::span<const token_id> tokens, kv_page page);
  /// The full page with exactly these tokens after `parent`'s; null if there is none.
  [[nodiscard]] node* next(const std::string& salt, const node* parent,
                           std::span<const token_id> tokens) const;
  [[nodiscard]] static kv_page page_of(const node* at) noexcept;

  /// In use: at least one release() must follow. Callers use every node from the root down.
  void use(node* at);
  void release(node* at);
  void pin(node* at);
  void unpin(node* at);

  /// Gives up one node that is not in use; nullopt when all are.
  [[nodiscard]] std::optional<kv_page> evict();

  [[nodiscard]] std::uint32_t pages() const noexcept { return pages_; }
  /// Nodes that evict() could give up, one after another.
  [[nodiscard]] std::uint32_t idle() const noexcept { return idle_; }
  /// The page of every node, for invariants in tests.
  [[nodiscard]] std::vector<kv_page> all_pages() const;

 private:
  struct tokens_less {
    using is_transparent = void;
    [[nodiscard]] bool operator()(std::span<const token_id> a, std::span<const token_id> b) const noexcept;
  };
  using children = std::map<std::vector<token_id>, std::unique_ptr<node>, tokens_less>;
  struct eviction_order {
    [[nodiscard]] bool operator()(const node* a, const node* b) const noexcept;
  };

  [[nodiscard]] static std::pair<node*, std::uint32_t> best_child(const children& among,
                                                                  std::span<const token_id> tokens);
  [[nodiscard]] children& children_of(node* parent, const std::string& salt);
  kv_page extend(children& among, node* shorter, std::span<const token_id> tokens, kv_page page);
  void list(node* at);
  void unlist(node* at);
  void drop(node* at);

  const std::uint32_t page_positions_;
  std::function<void(const node*)> on_dropped_;
  std::map<std::string, children> roots_;      ///< by salt; never an empty one
  std::set<node*, eviction_order> evictable_;  ///< leaves that are not in use, the next to go first
  std::uint64_t clock_ = 0;
  std::uint32_t pages_ = 0;
  std::uint32_t idle_ = 0;
};

}  // namespace orcd::engine
