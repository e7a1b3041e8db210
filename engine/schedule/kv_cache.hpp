// Who holds which pages of the KV cache: jobs, the prefix tree, or nobody. A job gets all the pages that it
// can ever need when it is admitted, less those that it shares, so that a running job never waits for memory
// and jobs cannot block each other. What a job leaves behind stays in the tree until the pages are needed.
//
// Same bytes, hit or cold: what a page holds is a function of the tokens before and in it (design 5), so that
// sharing changes when a token comes, never which.
// GPU thread only. Source: issue 5 items 4 and 5, seed 002.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/job.hpp"
#include "engine/schedule/page_pool.hpp"
#include "engine/schedule/pin_table.hpp"
#include "engine/schedule/prefix_tree.hpp"

namespace orcd::engine {

struct kv_cache_config {
  bool share = true;                 ///< false: nothing is kept when a job ends
  std::uint32_t tokens_min = 100;    ///< shorter prefixes are neither kept nor looked for
  std::uint32_t sessions = 1;        ///< whose last path is pinned
  std::uint32_t system_prompts = 4;  ///< likewise
};

struct kv_cache_counts {
  std::uint64_t queries = 0;       ///< admitted jobs that asked for a prefix
  std::uint64_t hits = 0;          ///< those that found one
  std::uint64_t query_tokens = 0;  ///< of their prompts
  std::uint64_t hit_tokens = 0;    ///< not computed because of it
  std::uint64_t evictions = 0;     ///< pages given up by the tree for a job
  std::uint32_t pages = 0;
  std::uint32_t pages_free = 0;
  std::uint32_t pages_cached = 0;  ///< of the tree and in no job's use
  std::uint32_t sessions = 0;      ///< pinned now
};

/// The pages of one job, in the order of positions. The first path.size() belong to the tree, but for those
/// that differ from the path's: they were computed at the same time by another job.
struct kv_lease {
  std::vector<kv_page> pages;
  std::vector<prefix_tree::node*> path;  ///< by page, in use
  std::uint32_t held = 0;                ///< positions whose KV was not computed by the job
  std::uint32_t written = 0;             ///< positions that steps may have written; pages beyond are clear
  std::optional<page_copy> copy;         ///< to be made before the first step
};

class kv_cache {
 public:
  /// All pages are clear and nobody's; `clear` zeroes pages before anybody else gets them.
  kv_cache(kv_geometry geometry, kv_cache_config config, std::function<void(std::span<const kv_page>)> clear);

  /// Whether a job of so many positions fits an empty cache.
  [[nodiscard]] bool can_hold(std::uint32_t positions) const noexcept;
  /// Pages for `positions`, those of the prompt's known beginning shared; at least the prompt's last token is
  /// left to compute. Nullopt while running jobs hold too much. Whoever copies does it at once.
  [[nodiscard]] std::optional<kv_lease> reserve(const cache_request& wish, std::span<const token_id> prompt,
                                                std::uint32_t positions);
  /// Whether the job, with `computed` positions, is at a page of its prompt that it could take over from
  /// whoever has published it: the page's first position, nothing in it computed yet.
  [[nodiscard]] bool wants_page(const kv_lease& lease, const cache_request& wish, std::uint32_t prompt_tokens,
                                std::uint32_t computed) const noexcept;
  /// Takes over the pages that were published since reserve(); returns the positions computed now. If that
  /// would change something, the device is told first, by `before`, that the sequence lets go of its pages.
  std::uint32_t catch_up(
      kv_lease& lease, const cache_request& wish, std::span<const token_id> prompt, std::uint32_t computed,
      const std::function<void()>& before = [] {});
  /// Lets others share the full pages among the first `computed` positions.
  void publish(kv_lease& lease, const cache_request& wish, std::span<const token_id> tokens,
               std::uint32_t computed);
  /// Keeps what can be used again (unless `computed` is 0) and frees the rest.
  void finish(kv_lease&& lease, const cache_request& wish, std::span<const token_id> tokens,
              std::uint32_t computed);

  /// Changes whenever a reserve() that found too little might succeed.
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }
  [[nodiscard]] std::uint32_t page_positions() const noexcept { return geometry_.page_positions; }
  [[nodiscard]] kv_cache_counts counts() const noexcept;
  [[nodiscard]] const prefix_tree& tree() const noexcept { return tree_; }

 private:
  [[nodiscard]] prefix_tree::match look_up(const cache_request& wish, std::span<const token_id> prompt) const;
  [[nodiscard]] bool keeps(const cache_request& wish, std::uint32_t computed) const noexcept;
  void make_room(std::uint32_t pages);
  void free_pages(std::span<const kv_page> written, std::span<const kv_page> clear);
  void pin(const kv_lease& lease, prefix_tree::node* last, const cache_request& wish,
           std::span<const token_id> tokens);

  const kv_geometry geometry_;
  const kv_cache_config config_;
  std::function<void(std::span<const kv_page>)> clear_;
  page_pool pool_;
  prefix_tree tree_;
  pin_table sessions_, system_prompts_;
  kv_cache_counts counts_;
  std::uint64_t changes_ = 0;
};

}  // namespace orcd::engine
