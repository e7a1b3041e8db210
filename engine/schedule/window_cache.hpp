// The pages of the groups whose layers have a window (kv_geometry): those that running jobs need, which move
// on with them, and those that boundaries keep for later jobs (boundary_store.hpp). Which pages a position
// needs is said by engine/base/kv_window.hpp.
//
// A job takes a page when a step is planned that reaches it, and gives it back when no later step reads it.
// What all jobs can hold together is bounded, and the pools are larger than that: a page that a job needs is
// free, or boundaries give it up.
//
// Of a group of states jobs hold nothing: its pages are states that steps copy at positions where a boundary
// is wanted, and belong to the job until the boundary is made. No job waits for one: where none is free, and
// no boundary can give one up, there will be no boundary. GPU thread only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/schedule/boundary_store.hpp"
#include "engine/schedule/window_pages.hpp"

namespace orcd::engine {

/// A job's pages of one group: those of positions from first * page_positions on.
struct window_lease {
  std::uint32_t first = 0;
  std::vector<kv_page> pages;
  std::optional<page_copy> copy = {};  ///< to be made before the first step
  std::optional<kv_page> lent = {};    ///< the page to copy from; the job's too until its next call
};

/// What a job has of all windowed groups.
struct job_windows {
  std::vector<window_lease> groups;
  /// Positions at which it leaves boundaries, beside the periodic ones: behind its system prompt, before the
  /// last token of its prompt, and where it left what others had; 0: none. Where it ends there is one that
  /// its next turn will find, so that those before are passed: the second of these, and the one that it began
  /// at. Periodic ones are from the beginning.
  std::array<std::uint32_t, 3> marks{};
  std::uint32_t began = 0;
  std::uint32_t seen = 0;               ///< those up to here are made
  std::vector<state_copy> states = {};  ///< that steps were asked for, and that are no boundaries yet; rising
  bool lost_state = false;              ///< of the device's sequence: it can only be computed again
};

struct window_counts {
  std::uint32_t pages = 0;       ///< of all windowed groups
  std::uint32_t pages_used = 0;  ///< by running jobs
  std::uint32_t pages_kept = 0;  ///< by boundaries alone
  std::uint32_t boundaries = 0;
  std::uint64_t boundaries_given_up = 0;  ///< for a job's pages, so far
};

class window_cache {
 public:
  /// `clear` zeroes pages of a group before another job gets them.
  window_cache(const kv_geometry& geometry,
               std::function<void(std::uint32_t group, std::span<const kv_page>)> clear);

  /// Whether there are such groups. Without, nothing below is called.
  [[nodiscard]] bool any() const noexcept { return !groups_.empty(); }
  /// Whether one of them is of states.
  [[nodiscard]] bool has_states() const noexcept { return has_states_; }

  /// Cuts what the tree knows of `tokens` to the deepest boundary of at least `positions_min`, which is
  /// returned; to nothing where there is none. Valid until the next call of anything else but begin().
  [[nodiscard]] const boundary* cut(prefix_tree::match& known, const std::string& salt,
                                    std::span<const token_id> tokens, std::uint32_t positions_min) const;
  /// The pages of a job that goes on at a boundary; null: that begins at position 0.
  [[nodiscard]] job_windows begin(const boundary* from);
  /// Gives a job the pages for its first `end` positions. `added` is called for each group that had fewer,
  /// with the index of the first one that is new.
  void reach(job_windows& of, std::uint32_t end,
             const std::function<void(std::uint32_t group, std::uint32_t have)>& added);
  /// The first `computed` positions are computed, and known to be: gives back what is not needed any more.
  void trim(job_windows& of, std::uint32_t computed);
  /// What was launched beyond `computed` is lost: gives back its pages. `written`: positions that may have
  /// been written, as in kv_lease.
  void set_back(job_windows& of, std::uint32_t computed, std::uint32_t written);
  /// States that a step from `begin` to `end` is to copy; valid until the job's next call.
  [[nodiscard]] std::span<const state_copy> wanted_states(job_windows& of, std::uint32_t begin,
                                                          std::uint32_t end);
  /// The same of one position, behind which nothing else is asked for; null: there is no page, or no need.
  [[nodiscard]] const state_copy* want_state(job_windows& of, std::uint32_t position);
  /// It was not copied.
  void drop_last_state(job_windows& of);
  /// The job ends.
  void release(job_windows&& of, std::uint32_t written);

  /// Makes a job's boundaries up to `end`, and one at `end` itself where `last` is set. Its pages are those
  /// of the nodes in `path`, then that of `tail`. What trim() has given back makes no boundary.
  void keep(job_windows& of, std::span<prefix_tree::node* const> path, prefix_tree::node* tail,
            std::uint32_t end, bool last);
  /// The node leaves the tree.
  void forget(const prefix_tree::node* at);

  /// Nothing is used before open(), which zeroes all pages: another process may write to them.
  void close();
  void open();
  [[nodiscard]] window_counts counts() const noexcept;
  /// For invariants in tests; the first windowed group is 1.
  [[nodiscard]] const window_pages& pages_of(std::uint32_t group) const { return groups_[group - 1].pages; }
  [[nodiscard]] const boundary_store& boundaries() const noexcept { return boundaries_; }

 private:
  struct windowed_group {
    std::uint32_t window;
    window_pages pages;
    std::vector<kv_page> closed = {};
  };
  void take(std::size_t index, std::vector<kv_page>& out);
  void give(std::size_t index, const window_lease& of, std::uint32_t first, std::uint32_t end,
            std::uint32_t written);
  void drop(const boundary* one);
  void end_loan(std::size_t index, window_lease& of);
  [[nodiscard]] bool keep_at(job_windows& of, prefix_tree::node* at, std::uint32_t position, bool periodic);
  void drop_states(job_windows& of, std::uint32_t first, std::uint32_t end);
  [[nodiscard]] std::size_t windowed() const noexcept { return groups_.size() - (has_states_ ? 1 : 0); }

  const std::uint32_t size_;   ///< positions of a page
  std::uint32_t spacing_ = 0;  ///< of periodic boundaries; 0: there are none
  bool keeps_ = true;          ///< boundaries are made
  bool has_states_ = false;    ///< the last group is of states
  std::vector<windowed_group> groups_;
  boundary_store boundaries_;
  std::uint64_t given_up_ = 0;
};

}  // namespace orcd::engine
