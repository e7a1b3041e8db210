// What the pages of a KV cache hold, noted in memory that outlives the process: who takes the cache over
// finds there which pages it can read at once, which are free, and which a step of the one that died may
// still write to. A page is noted when the step that filled it has been collected, and struck out before it
// is cleared, so that whatever is noted is whole at any moment of a death.
//
// The memory holds tokens of prompts and answers, and is on no disk. One process writes, on its GPU thread;
// the next one reads after its death. What cannot be right is left out: a spoilt ledger costs work, never an
// answer. Source: KV adoption of the failover plan.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/accelerator.hpp"

namespace orcd::engine {

/// A full page and what it holds.
struct noted_page {
  kv_page page = 0;
  std::optional<kv_page> parent;  ///< of the page before it; none: these are a sequence's first tokens
  std::string salt;
  std::vector<token_id> tokens;
  bool in_use = false;          ///< by a job that has not ended
  std::uint64_t last_used = 0;  ///< when a job ended that used it; larger is later
};

class page_ledger {
 public:
  enum class use : std::uint32_t {
    clean,  ///< zero, and nobody writes to it
    taken,  ///< a step may write to it or clear it
    full,   ///< noted
  };
  static constexpr std::size_t salt_bytes_max = 400;

  /// Of memory for a cache of this geometry.
  [[nodiscard]] static std::uint64_t bytes(const kv_geometry& geometry) noexcept;
  /// `memory` is zero (all pages are clean) or another ledger's of the same geometry, aligned to 64 bytes,
  /// and outlives the object. Where it holds anything else all pages are taken. Nullopt where it is too
  /// small.
  [[nodiscard]] static std::optional<page_ledger> of(std::span<std::byte> memory,
                                                     const kv_geometry& geometry);

  /// Before anything is written to them or they are cleared.
  void take(std::span<const kv_page> pages) noexcept;
  /// After the step that cleared them, or where nothing was written.
  void clean(std::span<const kv_page> pages) noexcept;
  /// A page whose tokens have all been computed. One with a salt that is too long is left taken.
  void note(kv_page page, std::optional<kv_page> parent, std::string_view salt,
            std::span<const token_id> tokens) noexcept;
  /// A job begins to use the page, or ends at the moment `when`; jobs are counted.
  void begin_use(kv_page page) noexcept;
  void end_use(kv_page page, std::uint64_t when) noexcept;
  /// No job uses any page: those of the process that died have to begin again.
  void forget_users() noexcept;

  [[nodiscard]] use use_of(kv_page page) const noexcept;
  /// The noted pages, each after its parent. Pages whose parent is missing or has another salt are left out.
  [[nodiscard]] std::vector<noted_page> noted() const;

 private:
  struct header;
  struct entry;
  page_ledger(std::span<std::byte> memory, const kv_geometry& geometry) noexcept
      : memory_(memory), geometry_(geometry) {}
  [[nodiscard]] entry& entry_of(kv_page page) const noexcept;
  [[nodiscard]] std::optional<noted_page> read(kv_page page) const;
  void set(kv_page page, use now) noexcept;

  std::span<std::byte> memory_;
  kv_geometry geometry_;
};

}  // namespace orcd::engine
