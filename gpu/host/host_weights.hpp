// The host backend's weights in memory that several processes map: copied from the file by one of them, read
// by all. Which tensor lies where follows from the model alone.
#pragma once

#include <functional>
#include <string>

#include "engine/model/model_spec.hpp"
#include "engine/model/shared_weights.hpp"
#include "gpu/memory/arena_mapping.hpp"

namespace orcd::gpu {

/// Not movable once it is filled: the views of a model point into it, and exported() to its descriptor. One
/// thread.
class host_weights {
 public:
  host_weights() = default;
  host_weights(const host_weights&) = delete;
  host_weights& operator=(const host_weights&) = delete;

  /// Copies the weights of `m` out of its file, binds the views in `m` to the copies and gives up writing to
  /// them. `progress` gets up to 100, half of it by the copy and half by its hash. Throws
  /// accelerator_failure: insufficient_vram.
  void copy(engine::model& m, const std::function<void(unsigned percent)>& progress);
  /// Binds the views of `m` to another process's copy, of which every byte is checked first, on `threads`
  /// threads (0 = one per processor), which `progress` tells. Throws accelerator_failure: stale_weights where
  /// it is not the same model in the same places, or damaged.
  void import(engine::model& m, const engine::shared_weights& from, unsigned threads,
              const std::function<void(unsigned percent)>& progress);

  /// Lets the memory go; the views in the model stay, and may not be used until map_again().
  void drop() noexcept;
  /// The same weights in another process's memory, of which every byte is checked. Throws
  /// accelerator_failure: stale_weights.
  void map_again(const engine::shared_weights& from, unsigned threads);

  /// After copy().
  [[nodiscard]] const engine::shared_weights& exported() const noexcept { return exported_; }

 private:
  arena_mapping arena_;
  engine::file_descriptor descriptor_;
  engine::shared_weights exported_;
  std::string layout_hash_{};  ///< of what is bound
};

/// Reads one byte of every page, so that the file is in memory before the first request, and tells how far it
/// is.
void read_weights(const engine::model_weights& weights,
                  const std::function<void(unsigned percent)>& progress);

}  // namespace orcd::gpu
