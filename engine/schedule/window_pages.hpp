// The pages of one group whose layers have a window: who refers to each. A page may be in the leases of
// several jobs and at several boundaries (boundary_store.hpp); when nobody refers to it any more it is zeroed
// and free. GPU thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "engine/schedule/page_pool.hpp"

namespace orcd::engine {

class window_pages {
 public:
  /// Whose reference it is.
  enum class by : std::uint8_t { job, boundary };

  /// `clear` zeroes pages before another job gets them. All are zero at first.
  window_pages(std::uint32_t pages, std::function<void(std::span<const kv_page>)> clear)
      : clear_(std::move(clear)), pool_(pages), references_(pages) {
    freed_.reserve(pages);  // giving back allocates nothing
  }

  /// Appends a free page to `out`, referred to by a job; there is one.
  void take(std::vector<kv_page>& out);
  /// One reference more, to pages that are not free.
  void refer(std::span<const kv_page> pages, by whose);
  /// One reference less. `written`: something may have been written to those of them that are free then.
  void let_go(std::span<const kv_page> pages, by whose, bool written = true);

  /// Whether one of them would be free without the boundaries.
  [[nodiscard]] bool is_only_kept(std::span<const kv_page> pages) const noexcept;
  [[nodiscard]] std::uint32_t size() const noexcept { return pool_.size(); }
  [[nodiscard]] std::uint32_t free() const noexcept { return pool_.free(); }
  /// Pages of jobs, whether at a boundary or not.
  [[nodiscard]] std::uint32_t used() const noexcept { return used_; }
  [[nodiscard]] bool is_free(kv_page page) const noexcept { return pool_.is_free(page); }

 private:
  struct count {
    std::uint32_t jobs = 0, boundaries = 0;
  };
  [[nodiscard]] count& of(kv_page page) noexcept { return references_[static_cast<std::size_t>(page)]; }

  std::function<void(std::span<const kv_page>)> clear_;
  page_pool pool_;
  std::vector<count> references_;  ///< by page
  std::vector<kv_page> freed_;     ///< reused
  std::uint32_t used_ = 0;
};

}  // namespace orcd::engine
