// The free pages of an accelerator's KV cache. Any page may follow any other in a sequence, so that there is
// no fragmentation. GPU thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/ids.hpp"

namespace orcd::engine {

class page_pool {
 public:
  explicit page_pool(std::uint32_t pages);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(taken_.size()); }
  [[nodiscard]] std::uint32_t free() const noexcept { return static_cast<std::uint32_t>(free_.size()); }
  [[nodiscard]] bool is_free(kv_page page) const noexcept { return !taken_[static_cast<std::size_t>(page)]; }
  /// Appends `count` pages to `out`; more than free() is a programmer error.
  void take(std::uint32_t count, std::vector<kv_page>& out);
  /// Takes these pages, which are free.
  void take(std::span<const kv_page> pages);
  /// Giving a page back that was not taken is a programmer error.
  void give(std::span<const kv_page> pages);

 private:
  std::vector<kv_page> free_;  ///< handed out from the back
  std::vector<bool> taken_;    ///< by page: not free
};

}  // namespace orcd::engine
