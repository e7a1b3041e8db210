// Which pages of the KV cache hold which tokens: a radix tree over token ids for each salt. A node owns one
// page and the tokens in it; only a node with a full page has children. Matches are found by comparing
// tokens, never by a hash alone. Tokens are here what page_keys.hpp says: with the digests of media among
// them, which take no position.
//
// A full page is shared as it is; of a page that matches in part, the matching positions can be copied. Nodes
// in use are counted and never evicted. The others are evicted least recently used first, leaves before their
// parents, pinned ones last. GPU thread only.
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

  /// What the tree has of a sequence's beginning.
  struct match {
    std::vector<node*> whole;     ///< full pages, in order
    node* part = nullptr;         ///< the page after them with the most matching positions
    std::uint32_t positions = 0;  ///< matching positions of `part`; 0 when there is none
  };

  /// The node that holds the tokens now, and the page that the tree does not use: the given one if it has
  /// these tokens already, or the shorter page that the given one replaces.
  struct insertion {
    node* at = nullptr;
    std::optional<kv_page> unused;
  };

  /// `on_dropped` is called with every node that is pinned or was marked before it is evicted.
  prefix_tree(std::uint32_t page_positions, std::function<void(const node*)> on_dropped);
  ~prefix_tree();

  [[nodiscard]] match find(const std::string& salt, std::span<const token_id> tokens) const;
  /// Adds a page with `tokens`, 1 to page_positions of them, below `parent`; null: at the root.
  insertion insert(const std::string& salt, node* parent, std::span<const token_id> tokens, kv_page page);
  /// The node below `parent` whose full page has exactly these tokens; null if there is none.
  [[nodiscard]] node* next(const std::string& salt, const node* parent,
                           std::span<const token_id> tokens) const;
  [[nodiscard]] static kv_page page_of(const node* at) noexcept;
  [[nodiscard]] static std::span<const token_id> tokens_of(const node* at) noexcept;
  [[nodiscard]] static const std::string& salt_of(const node* at) noexcept;
  [[nodiscard]] static const node* parent_of(const node* at) noexcept;
  [[nodiscard]] static bool is_pinned(const node* at) noexcept;
  /// Jobs that use it; no fewer than those of a node below it.
  [[nodiscard]] static std::uint32_t users_of(const node* at) noexcept;

  /// Marks a node as used until release() was called as often. Callers mark the whole path from the root
  /// down.
  void use(node* at);
  void release(node* at);
  void pin(node* at);
  void unpin(node* at);
  static void mark(node* at) noexcept;

  /// Evicts one node that is not in use and returns its page; nullopt when all are in use.
  [[nodiscard]] std::optional<kv_page> evict();

  [[nodiscard]] std::uint32_t pages() const noexcept { return pages_; }
  /// Nodes that evict() could return, one call after another.
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
