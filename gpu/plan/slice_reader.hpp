// The host half of an upload: threads that copy slices of weights from the mapped file into a ring of staging
// slots. One consumer takes filled slots and releases them. The slots bound the memory. Source: M0-W-1221,
// M0-W-1222.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "gpu/plan/weight_layout.hpp"

namespace orcd::gpu {

/// Rows of one piece that fit into a slot. `first_row` is a multiple of 16, so that a slice of a packed
/// matrix is whole row tiles.
struct weight_slice {
  const weight_piece* piece = nullptr;
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return rows * piece->staged_row_bytes(); }
};

/// Size and number of staging slots for a model: 4 MiB each or 16 rows of its widest tensor, at most 16.
struct staging_shape {
  std::uint64_t slot_bytes = 0;
  std::uint32_t slots = 0;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return slot_bytes * slots; }
};
[[nodiscard]] staging_shape staging_for(std::span<const weight_piece> pieces);

/// Cuts pieces into slices of about equal size; they point into `pieces`.
[[nodiscard]] std::vector<weight_slice> cut_slices(std::span<const weight_piece> pieces,
                                                   std::uint64_t slot_bytes);

class slice_reader {
 public:
  struct filled_slot {
    std::uint32_t slot = 0;
    std::size_t slice = 0;
  };

  /// Starts `threads` threads (at least one). `slices` and the memory of `slots` outlive the object;
  /// every slot holds any slice. Throws accelerator_failure when no thread can be started.
  slice_reader(std::span<const weight_slice> slices, std::vector<std::byte*> slots, unsigned threads);
  /// Stops after the slices being copied at the moment.
  ~slice_reader();
  slice_reader(const slice_reader&) = delete;
  slice_reader& operator=(const slice_reader&) = delete;

  /// Takes a filled slot. If there is none: nothing, or with `wait` the next one; a caller may wait only
  /// while it holds no slot and has not taken every slice.
  [[nodiscard]] std::optional<filled_slot> take(bool wait);
  /// The slot's contents are no longer needed.
  void give_back(std::uint32_t slot);

 private:
  void run();
  void stop() noexcept;

  std::span<const weight_slice> slices_;
  std::vector<std::byte*> slots_;
  std::mutex mutex_;
  std::condition_variable slot_freed_, slot_filled_;
  std::vector<std::uint32_t> free_;
  std::vector<filled_slot> filled_;  ///< in the order of completion
  std::size_t next_ = 0;             ///< first slice that no thread copies yet
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace orcd::gpu
