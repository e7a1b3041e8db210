// The windowed groups of a fake_accelerator's cache. As there, each position of a page holds a hash of all
// tokens up to it; what is clear holds a poison, which is no such hash. A step fails that would read a
// position that is not in the sequence's pages, or that does not hold the sequence's own tokens, or that
// would write to a page that another sequence has.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"

namespace orcd::test {

class fake_windows {
 public:
  fake_windows(const engine::kv_geometry& geometry, std::uint32_t slots);

  /// `hashes`: of the first tokens, by their number less one; as many as are held. What is wrong is returned;
  /// empty: nothing.
  [[nodiscard]] std::string begin(const engine::sequence_start& start, std::span<const std::uint64_t> hashes);
  [[nodiscard]] std::string extend(engine::slot_id slot, std::uint32_t group, std::uint32_t have,
                                   std::span<const engine::kv_page> pages);
  /// The next step of each slot comes at its `next` position.
  void clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept;
  /// A step computes the positions from `from` on, the sequence goes on at `next`.
  [[nodiscard]] std::string compute(engine::slot_id slot, std::span<const std::uint64_t> hashes,
                                    std::size_t from, std::size_t next);
  void release(engine::slot_id slot) noexcept;

  /// Pages of a group with something in them.
  [[nodiscard]] std::uint32_t written(std::uint32_t group) const;
  /// Positions that steps have read so far.
  [[nodiscard]] std::uint64_t read() const noexcept { return read_; }

 private:
  using page_values = std::vector<std::uint64_t>;
  struct held_group {
    std::map<std::size_t, engine::kv_page> table;  ///< by the page's index in the sequence
  };
  struct held_slot {
    std::vector<held_group> groups;
    std::size_t next = 0;
    bool begun = false;
  };
  [[nodiscard]] std::string check_reads(const held_slot& slot, std::size_t group, std::size_t position,
                                        std::span<const std::uint64_t> hashes);
  [[nodiscard]] bool is_clear(std::size_t group, engine::kv_page page) const;
  [[nodiscard]] page_values& values(std::size_t group, engine::kv_page page) {
    return kv_[group][static_cast<std::size_t>(page)];
  }

  engine::kv_geometry geometry_;
  std::vector<std::vector<page_values>> kv_;  ///< [windowed groups][pages][positions]
  std::vector<held_slot> slots_;
  std::string broken_;  ///< by a call that cannot fail
  std::uint64_t read_ = 0;
};

}  // namespace orcd::test
