// The LoRA adapters of the host backend: the room they are copied into, which of them each slot's sequence
// has, and what they add to a step's products. Everything is allocated by the constructor.
//
// Columns of a step are grouped by adapter and strength, in rounds: round n holds the n-th adapter of every
// column, so that a column's sums have one order whatever else is in the step (kernels/host/lora.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "gpu/host/host_memory.hpp"
#include "gpu/plan/adapter_layout.hpp"
#include "kernels/host/lora.hpp"

namespace orcd::gpu {

class host_adapters {
 public:
  host_adapters(const engine::model& m, engine::adapter_room room, const host_extents& extents);
  [[nodiscard]] static std::uint64_t bytes(const engine::model& m, engine::adapter_room room,
                                           const host_extents& extents);

  /// As the accelerator's.
  [[nodiscard]] engine::result<void> put(std::uint32_t index, const engine::lora_adapter& adapter);
  void drop(std::uint32_t index) noexcept;

  /// The adapters of the slot's sequence from now on; none when it is released.
  void use(std::uint32_t slot, std::span<const engine::active_adapter> adapters) noexcept;

  /// Begins a list of the columns that the next calls of add() are for.
  void begin_columns() noexcept;
  /// A column that reads row `x_row` and writes row `y_row`.
  void add_column(std::uint32_t x_row, std::uint32_t y_row, std::uint32_t slot) noexcept;
  void end_columns() noexcept;

  /// y += strength * scale * B (A x) for the columns whose adapters have a pair beside the matrix.
  void add(engine::lora_target target, std::uint32_t layer, const float* x, std::size_t x_stride, float* y,
           std::size_t y_stride, kernels::host::thread_pool& pool);
  /// The same for the embeddings of the columns' tokens.
  void add_embeddings(const std::int32_t* tokens, float* y, std::size_t y_stride,
                      kernels::host::thread_pool& pool);

 private:
  struct held_pair {
    std::uint32_t rank = 0;  ///< 0: there is none
    float scale = 0.0F;
  };
  struct column {
    std::uint32_t x_row = 0, y_row = 0, slot = 0;
  };
  struct group {
    engine::active_adapter adapter;
    std::uint32_t first = 0;  ///< in x_rows_ and y_rows_
    std::uint32_t count = 0;
  };
  struct slot_adapters {
    std::array<engine::active_adapter, engine::active_adapters_max> list{};
    std::uint32_t count = 0;
  };

  void group_round(std::uint32_t round) noexcept;
  [[nodiscard]] bool is_grouped(const engine::active_adapter& adapter, std::uint32_t from) const noexcept;
  void run(const adapter_place& place, kernels::lora_args args, kernels::host::thread_pool& pool);
  [[nodiscard]] held_pair& pair_of(std::uint32_t index, std::int32_t place) noexcept {
    return pairs_[index * layout_.places().size() + static_cast<std::size_t>(place)];
  }
  [[nodiscard]] float* room_of(std::uint32_t index) const noexcept {
    return values_.get() + index * layout_.floats();
  }

  engine::adapter_room room_;
  adapter_layout layout_;
  std::unique_ptr<float[]> values_;    ///< [room.count][layout.floats()]
  std::vector<held_pair> pairs_;       ///< [room.count][places]
  std::vector<bool> present_;          ///< [room.count]
  std::vector<slot_adapters> slots_;   ///< empty without room
  std::uint32_t slots_with_some_ = 0;  ///< of them
  std::unique_ptr<float[]> inner_;     ///< [columns][rank_max]
  // Of the columns at hand; capacity is kept.
  std::vector<column> columns_;
  std::vector<std::uint32_t> x_rows_, y_rows_;                                ///< group by group
  std::vector<group> groups_;                                                 ///< round by round
  std::array<std::uint32_t, engine::active_adapters_max + 1> round_begin_{};  ///< first group of each
  std::vector<kernels::lora_group> work_;                                     ///< of one call
  std::vector<kernels::matmul_args> products_;                                ///< likewise
};

}  // namespace orcd::gpu
