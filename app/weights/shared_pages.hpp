// The KV cache that the engines of a device use one after the other, as the holder passes it on beside the
// weights: the memory of its pages, and the ledger of what they hold. One thread at a time.
#pragma once

#include <optional>
#include <string>

#include "engine/accelerator.hpp"
#include "engine/base/error.hpp"
#include "engine/schedule/page_ledger.hpp"
#include "gpu/memory/arena_mapping.hpp"
#include "net/failover/weights_link.hpp"

namespace orcd::app {

/// What two engines must have in common to use one cache, besides what decides the bits: a short text.
[[nodiscard]] std::string text_of(const engine::kv_geometry& geometry);

class shared_pages {
 public:
  explicit shared_pages(engine::kv_geometry geometry) noexcept : geometry_(geometry) {}

  /// A cache that this engine's accelerator has made; stays valid as long as this object. Errors:
  /// insufficient_vram, where there is no memory for the ledger.
  [[nodiscard]] engine::result<void> make(const engine::shared_cache& exported);
  /// Another engine's, which has the same text_of(). False where the holder has none. Errors of the link.
  [[nodiscard]] net::weights_result<bool> take(net::weights_link& from);
  /// For other engines, with a grant to write; nothing where there is no cache.
  [[nodiscard]] net::weights_result<void> put(net::weights_link& to) const;

  /// For accelerator::load(), after take().
  [[nodiscard]] const std::optional<engine::shared_cache>& cache() const noexcept { return cache_; }
  /// Nullopt where there is no cache, or its ledger is damaged.
  [[nodiscard]] std::optional<engine::page_ledger> ledger() const;

 private:
  engine::kv_geometry geometry_;
  std::optional<engine::shared_cache> cache_;
  engine::file_descriptor taken_;  ///< of the pages, where they are another engine's
  gpu::arena_mapping memory_;      ///< of the ledger
  engine::file_descriptor ledger_;
};

}  // namespace orcd::app
