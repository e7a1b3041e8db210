// The group of states of a fake_accelerator's cache. A page holds a hash of all tokens before its position,
// or a poison: after it was cleared, and when the step that was to copy it was lost. A sequence that goes on
// from a page whose state is not that of its own tokens is told of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"

namespace orcd::test {

class fake_states {
 public:
  explicit fake_states(const engine::kv_geometry& geometry);

  [[nodiscard]] bool any() const noexcept { return any_; }
  /// `hashes`: of the first tokens, by their number less one; as many as are held. What is wrong is returned;
  /// empty: nothing.
  [[nodiscard]] std::string begin(const engine::sequence_start& start, std::span<const std::uint64_t> hashes);
  /// A step copies what it was asked to.
  [[nodiscard]] std::string compute(const engine::sequence_step& part, std::span<const std::uint64_t> hashes,
                                    std::uint64_t step);
  /// Steps from this number on are lost.
  void lose(std::uint64_t step);
  void save(const engine::state_copy& to, std::span<const std::uint64_t> hashes);
  void clear(std::span<const engine::kv_page> pages) noexcept;
  [[nodiscard]] std::uint32_t written() const;
  /// Sequences that went on from a state.
  [[nodiscard]] std::uint64_t loaded() const noexcept { return loaded_; }

 private:
  struct page {
    std::uint64_t value, step;
  };
  std::vector<page> pages_;
  bool any_ = false;
  std::uint64_t loaded_ = 0;
};

}  // namespace orcd::test
