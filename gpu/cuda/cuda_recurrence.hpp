// Layers with other mixers than attention on the GPU: what is kept of each slot's sequence, states in pages,
// and the kernels of such a layer between its products. What a kernel reads of a slot follows from positions
// alone, so that nothing of a slot's former sequence is ever read, and a step of a sequence that has ended
// writes what is there. GPU thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/cuda_weights.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/kept_layout.hpp"
#include "gpu/plan/kv_layout.hpp"
#include "gpu/plan/mixed_layout.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/product/packed_matmul_args.hpp"
#include "kernels/recurrent/recurrent_layer.hpp"

namespace orcd::gpu {

class cuda_recurrence {
 public:
  /// Computes a product, whose `x` and `out` are set, of so many columns.
  using multiply_call = std::function<void(kernels::packed_matmul_args&, std::uint32_t)>;

  /// All outlive the object. `steps`: [columns], in VRAM.
  cuda_recurrence(const engine::model_spec& spec, const cuda_weights& weights, const cuda_extents& extents,
                  const work_layout& layout, const vram_arena& work, const vram_arena& cache,
                  cudaStream_t stream, multiply_call multiply);

  /// Whether the model has such layers. Without, nothing below is called.
  [[nodiscard]] bool any() const noexcept { return !kept_.recurrent.empty(); }

  /// As accelerator::begin(): the slot's sequence is at position 0, or goes on from the page's state.
  void begin(std::uint32_t slot, const engine::group_pages& pages, std::uint32_t position);
  /// As accelerator::keep_state().
  [[nodiscard]] bool keep_state(std::uint32_t slot, const engine::state_copy& to) noexcept;
  void clear(std::span<const engine::kv_page> pages);
  /// The sequences of steps under way are lost: their states cannot be kept.
  void spoil() noexcept;
  /// A step that is launched has so many positions of the slot.
  void note(std::uint32_t slot, std::uint32_t position, std::uint32_t count);

  /// The columns from `column` on are a sequence's from `position` on: states that its step copies.
  void want(std::uint32_t column, std::uint32_t position, std::span<const engine::state_copy> states);
  /// Behind a pass: nothing is wanted of the next one.
  void forget_wanted();

  /// Enqueue: what a pass's columns are; `runs` is how many sequences it has at most, 0: it has none with
  /// more columns than a step with drafts. And a layer's rows from its input to what its last product takes.
  void begin_pass(std::uint32_t columns, std::uint32_t runs);
  void project(std::uint32_t layer, const __half* x, std::uint32_t x_stride);
  void mix(std::uint32_t layer);

  /// The products' rows, and what the last product takes.
  [[nodiscard]] float* mixed() const noexcept { return work_.at<float>(layout_.recurrent.mixed); }
  [[nodiscard]] mixed_layout places(std::uint32_t layer) const {
    return mixed_layout(spec_.recurrence, spec_.layers[layer].mixer);
  }
  [[nodiscard]] const __half* values() const noexcept { return work_.at<__half>(layout_.recurrent.values); }
  [[nodiscard]] std::uint32_t values_width(std::uint32_t layer) const noexcept;

 private:
  /// What a slot has, as far as steps were launched.
  struct kept_sequence {
    std::uint32_t first_state = 0;  ///< position of the oldest boundary that is kept
    std::uint32_t written = 0;      ///< rows before it were written, once
    bool spoiled = false;
  };

  [[nodiscard]] kernels::kept_memory memory_of(std::uint32_t layer) const;
  void copy(std::uint32_t slot, const engine::state_copy& what, bool to_page);
  void mix_state(std::uint32_t layer);
  void mix_short(std::uint32_t layer);
  void prepare(std::uint32_t layer, const mixed_layout& at);
  void scan(std::uint32_t layer, const mixed_layout& at);
  void finish(std::uint32_t layer, const mixed_layout& at);
  void keep(std::uint32_t layer, std::span<const kernels::keep_rows_args::part> parts);

  const engine::model_spec& spec_;
  const cuda_weights& weights_;
  const work_layout& layout_;
  const vram_arena& work_;
  const kept_layout kept_;
  std::uint32_t boundaries_;
  float* pages_ = nullptr;  ///< of the group of states
  std::uint32_t page_count_ = 0;
  cudaStream_t stream_;
  multiply_call multiply_;
  kernels::recurrent_pass pass_;
  std::vector<kept_sequence> slots_;
  bool wants_ = false;  ///< something was wanted since forget_wanted()
};

}  // namespace orcd::gpu
