// Assigns the pages of the KV cache: to jobs, to the prefix tree, or to nobody. A job gets pages for what is
// known when it is admitted, less those that it shares, and further ones as it grows; whose they are when all
// are in use is the scheduler's to decide. What a job leaves behind stays in the tree until the pages are
// needed.
//
// The output does not depend on hits: what a page holds is a function of the tokens before and in it, so that
// sharing changes when a token comes, never which.
//
// All this is about the pages of group 0. Those of layers with a window, and states, are window_cache's:
// where there are any, a prefix is shared up to a boundary, and no pages of running jobs are taken over. GPU
// thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/base/kv_window.hpp"
#include "engine/schedule/job.hpp"
#include "engine/schedule/page_ledger.hpp"
#include "engine/schedule/page_pool.hpp"
#include "engine/schedule/pin_table.hpp"
#include "engine/schedule/prefix_tree.hpp"
#include "engine/schedule/window_cache.hpp"

namespace orcd::engine {

struct kv_cache_config {
  bool share = true;                 ///< false: nothing is kept when a job ends
  std::uint32_t tokens_min = 100;    ///< shorter prefixes are neither kept nor looked for
  std::uint32_t sessions = 1;        ///< sessions whose last state is evicted after everything else
  std::uint32_t system_prompts = 4;  ///< system prompts that are evicted after everything else
  /// Pages that jobs leave free, or in the tree, for the engine that takes the cache over.
  std::uint32_t pages_reserved = 0;
};

struct kv_cache_counts {
  std::uint64_t queries = 0;       ///< admitted jobs that asked for a prefix
  std::uint64_t hits = 0;          ///< those that found one
  std::uint64_t query_tokens = 0;  ///< prompt tokens of the jobs that asked
  std::uint64_t hit_tokens = 0;    ///< prompt tokens that were not computed because of a hit
  std::uint64_t evictions = 0;     ///< pages that the tree gave up for a job
  std::uint32_t pages = 0;
  std::uint32_t pages_free = 0;
  std::uint32_t pages_cached = 0;  ///< in the tree and used by no job
  std::uint32_t sessions = 0;      ///< sessions that are pinned now
  std::uint32_t pages_closed = 0;  ///< out of use until open_pages()
  std::uint32_t adopted = 0;       ///< pages that a process that died had computed
  window_counts windows = {};      ///< all of the above is of group 0
};

/// The pages of one job. `pages` are those of group 0, in the order of positions. The first path.size()
/// belong to the tree's nodes in `path`, except where pages[i] is not the page of path[i]: there another job
/// computed the same tokens at the same time, the tree has that job's page, and pages[i] stays this job's
/// own.
struct kv_lease {
  std::vector<kv_page> pages;
  std::vector<prefix_tree::node*> path;  ///< the tree's node of each page; marked as used
  std::uint32_t held = 0;                ///< positions whose KV the job did not have to compute
  std::uint32_t written = 0;      ///< positions that steps may have written; later pages are still zero
  bool counts = true;             ///< in queries and hits: the job had no lease before
  std::optional<page_copy> copy;  ///< to be made before the first step; see reserve()
  job_windows windows = {};
};

/// Zeroes pages of a group, as accelerator::clear() does.
using page_clearing = std::function<void(std::uint32_t group, std::span<const kv_page>)>;

class kv_cache {
 public:
  /// At first all pages are free and zero. `clear` zeroes pages before another job gets them.
  kv_cache(kv_geometry geometry, kv_cache_config config, page_clearing clear);
  /// Of memory that another process may have used, and notes what it does there. What the ledger has noted is
  /// in the tree; pages that a step of the other process may still write to are out of use until
  /// open_pages(). So long no page is evicted that a job of the other process used, since that job will want
  /// it when it goes on here, and waiting is shorter than computing it again. Of layers with a window a
  /// ledger says nothing: where there are such groups nothing is adopted, and while pages are out of use no
  /// job gets any.
  kv_cache(kv_geometry geometry, kv_cache_config config, page_clearing clear, page_ledger ledger);

  /// Nothing of the other process writes any more: what was kept out of use is cleared and free.
  void open_pages();
  /// Whether pages are kept out of use.
  [[nodiscard]] bool has_closed_pages() const noexcept { return !closed_.empty(); }
  /// A step was launched; one was collected, the oldest. Pages are noted as clean when a step that was
  /// launched after they were cleared has been collected.
  void launched() noexcept { ++launched_; }
  void collected() noexcept;
  /// No launched step will be collected.
  void forgot_launched() noexcept;

  /// Pages of so many positions.
  [[nodiscard]] std::uint32_t pages_for(std::uint32_t positions) const noexcept {
    return pages_over(positions, geometry_.page_positions);
  }
  /// Whether a job of this many positions fits an empty cache.
  [[nodiscard]] bool can_hold(std::uint32_t positions) const noexcept {
    return pages_for(positions) + config_.pages_reserved <= geometry_.pages;
  }
  /// A lease of pages for `positions` positions that shares the pages of the prompt's known beginning; at
  /// least the prompt's last token is left to compute. Nullopt while running jobs hold too many pages:
  /// `leave` more must be free or in the tree. The copy that a lease may ask for must be made before any
  /// other call of this object: the page to copy from is not held for it. `again`: for a job that was set
  /// back, which is not counted twice.
  [[nodiscard]] std::optional<kv_lease> reserve(const cache_request& wish, std::span<const token_id> prompt,
                                                std::uint32_t positions, std::uint32_t leave = 0,
                                                bool again = false);
  /// The lease's pages that no other job uses: others could have them if it ended.
  [[nodiscard]] static std::uint32_t own_pages(const kv_lease& lease) noexcept;
  /// Adds a page to the lease; false while jobs hold too many.
  [[nodiscard]] bool extend(kv_lease& lease);
  /// Whether the job, with `computed` positions, stands before a full page of its prompt that another job may
  /// publish: nothing in that page is computed yet, so that it could be taken over.
  [[nodiscard]] bool wants_page(const kv_lease& lease, const cache_request& wish, std::uint32_t prompt_tokens,
                                std::uint32_t computed) const noexcept;
  /// Takes over the pages that others have published since reserve(); returns the positions computed now.
  /// `before` is called first if that changes anything: the accelerator must let go of the sequence's pages
  /// before they are freed.
  std::uint32_t catch_up(
      kv_lease& lease, const cache_request& wish, std::span<const token_id> prompt, std::uint32_t computed,
      const std::function<void()>& before = [] {});
  /// Puts the full pages among the first `computed` positions into the tree, so that others can share them.
  void publish(kv_lease& lease, const cache_request& wish, std::span<const token_id> tokens,
               std::uint32_t computed);
  /// Ends a lease: leaves in the tree what can be used again (nothing when `computed` is 0) and frees the
  /// rest.
  void finish(kv_lease&& lease, const cache_request& wish, std::span<const token_id> tokens,
              std::uint32_t computed);
  /// The same for a job that will have another lease: nothing is pinned for it, since that would keep others
  /// from the very pages that they were short of.
  void preempt(kv_lease&& lease, const cache_request& wish, std::span<const token_id> tokens,
               std::uint32_t computed);

  /// Whether anything is kept of a job that has computed so many positions.
  [[nodiscard]] bool keeps(const cache_request& wish, std::uint32_t computed) const noexcept;
  /// A number that grows whenever pages are given back, so that a reserve() that found too few might succeed.
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_; }
  [[nodiscard]] std::uint32_t page_positions() const noexcept { return geometry_.page_positions; }
  [[nodiscard]] kv_cache_counts counts() const noexcept;
  [[nodiscard]] const prefix_tree& tree() const noexcept { return tree_; }
  /// The pages of groups with windows, which jobs take and give back as they go on; null: there are none.
  [[nodiscard]] window_cache* windows() noexcept { return windows_.any() ? &windows_ : nullptr; }

 private:
  [[nodiscard]] prefix_tree::match look_up(const cache_request& wish, std::span<const token_id> prompt) const;
  [[nodiscard]] bool is_short(std::uint32_t pages) const noexcept;
  [[nodiscard]] std::optional<kv_lease> lend(prefix_tree::match found, std::uint32_t positions,
                                             std::uint32_t leave, bool with_part);
  void make_room(std::uint32_t pages);
  [[nodiscard]] prefix_tree::node* leave_in_tree(kv_lease& lease, const cache_request& wish,
                                                 std::span<const token_id> tokens, std::uint32_t computed);
  /// While pages are closed, the reserved ones are what there is.
  [[nodiscard]] std::uint32_t reserved() const noexcept {
    return closed_.empty() ? config_.pages_reserved : 0;
  }
  void adopt();
  void adopt_use(std::vector<std::pair<noted_page, prefix_tree::node*>> known);
  void release_awaited();
  void use(prefix_tree::node* at);
  void release(prefix_tree::node* at);
  void clear(std::span<const kv_page> pages);
  void set_marks(kv_lease& lease, const cache_request& wish, std::uint32_t prompt_tokens,
                 std::uint32_t known) const noexcept;
  void note_clean(kv_page page) noexcept;
  void note(const kv_lease& lease, std::size_t index, const std::string& salt,
            std::span<const token_id> tokens, const prefix_tree::node* parent) noexcept;
  void free_pages(std::span<const kv_page> written, std::span<const kv_page> untouched);
  void pin(const kv_lease& lease, prefix_tree::node* last, const cache_request& wish,
           std::span<const token_id> tokens);

  const kv_geometry geometry_;
  const kv_cache_config config_;
  page_clearing clear_;
  page_pool pool_;
  window_cache windows_;
  prefix_tree tree_;
  pin_table sessions_, system_prompts_;
  kv_cache_counts counts_;
  std::uint64_t changes_ = 0;

  /// A page that is being cleared.
  struct clearing {
    kv_page page = 0;
    std::uint64_t launched = 0;  ///< steps that were launched before
  };
  std::optional<page_ledger> ledger_;
  std::vector<kv_page> closed_;                 ///< taken from the pool
  std::vector<prefix_tree::node*> awaited_;     ///< used until open_pages(), in the order of their last use
  std::uint64_t clock_ = 0;                     ///< of the ledger's last uses
  std::deque<clearing> clearing_;               ///< in order; with a ledger only
  std::vector<std::uint32_t> clears_;           ///< of a page that are under way
  std::uint64_t launched_ = 0, collected_ = 0;  ///< steps
};

}  // namespace orcd::engine
