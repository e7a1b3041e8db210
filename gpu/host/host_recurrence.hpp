// Layers with other mixers than attention on the host: what is kept of each slot's sequence, and the half of
// a layer that mixes tokens. Of a state the last boundaries are kept, of everything else the last rows, by
// position, so that a step may begin again a few positions before the end of the one before: dropped drafts
// are rows that are written anew. The scheduler's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/host/host_adapters.hpp"
#include "gpu/host/host_memory.hpp"
#include "gpu/layer_tap.hpp"
#include "gpu/plan/kept_layout.hpp"
#include "kernels/host/recurrent.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {

class host_recurrence {
 public:
  /// `m` outlives the object.
  host_recurrence(const engine::model& m, const host_extents& extents);
  /// Of what is kept, all slots together.
  [[nodiscard]] static std::uint64_t bytes(const engine::model_spec& spec, const host_extents& extents);

  /// Whether the model has such layers. Without, nothing below is called.
  [[nodiscard]] bool any() const noexcept { return !kept_.recurrent.empty(); }
  /// The slot's sequence is at position 0, and nothing is left of the one before.
  void clear(std::uint32_t slot) noexcept;
  /// The slot, which is clear, goes on at the position from what was copied to the page there.
  void load(std::uint32_t slot, const engine::state_copy& from);
  /// Copies what is kept of the slot's first `to.position` tokens; false where that is gone.
  [[nodiscard]] bool save(std::uint32_t slot, const engine::state_copy& to) noexcept;
  void clear_page(engine::kv_page page) noexcept;
  /// The slot's part of the next step copies these when it passes them.
  void copy_in_step(std::uint32_t slot, std::span<const engine::state_copy> wanted);
  void forget_copies() noexcept { copies_.clear(); }
  /// The next step has these columns: those of a sequence are neighbours, and go on behind what the slot has,
  /// or as far before its end as drafts may be dropped.
  void begin_step(const host_workspace& work, std::uint32_t columns);
  /// Of a step that did not complete the slots can only be cleared.
  void end_step(bool complete) noexcept;
  /// The layer's mix of work.normed: `out` += it, or = it without `accumulate`; [columns][embedding].
  /// `adapters` add to its products.
  void mix(std::uint32_t layer, host_workspace& work, float* out, bool accumulate, host_adapters& adapters,
           kernels::host::thread_pool& pool, const layer_tap& tap);

 private:
  /// A state that the step at hand copies.
  struct step_copy {
    std::uint32_t slot;
    engine::state_copy to;
  };
  /// Columns of the step at hand.
  struct step_run {
    std::uint32_t slot, column, count, position;
  };
  /// What a slot has.
  struct kept_sequence {
    std::uint32_t first_state = 0;  ///< position of the oldest boundary that is kept
    std::uint32_t written = 0;      ///< rows before it were written, once
    bool used = false;
    bool spoiled = false;  ///< was in a step that did not complete
  };

  template <class Copy>
  void each_kept(std::uint32_t slot, const engine::state_copy& at, const Copy& copy) const;
  void note(const step_run& run);
  void point_runs(std::uint32_t layer);
  void copy_inputs(std::uint32_t layer, const host_workspace& work, std::size_t in);
  void scan(std::uint32_t layer, kernels::recurrent_args args, kernels::host::thread_pool& pool);
  [[nodiscard]] float* page_at(engine::kv_page page, std::uint32_t layer) const noexcept {
    return pages_.get() + static_cast<std::size_t>(page) * kept_.page_values + kept_.layers[layer].copied;
  }
  [[nodiscard]] float* state_at(std::uint32_t slot, std::uint32_t layer,
                                std::uint32_t position) const noexcept;
  [[nodiscard]] float* input_at(std::uint32_t slot, std::uint32_t layer,
                                std::uint32_t position) const noexcept;
  void project(std::uint32_t layer, host_workspace& work, host_adapters& adapters,
               kernels::host::thread_pool& pool);
  void convolve(std::uint32_t layer, host_workspace& work, std::size_t in, std::size_t out,
                kernels::host::thread_pool& pool);
  void mix_state(std::uint32_t layer, host_workspace& work, kernels::host::thread_pool& pool,
                 const layer_tap& tap);
  void mix_short(std::uint32_t layer, host_workspace& work, kernels::host::thread_pool& pool);

  const engine::model& model_;
  const engine::model_spec& spec_;
  const host_extents& extents_;
  const kept_layout kept_;
  std::unique_ptr<float[]> memory_;  ///< [slots][slot_values]
  std::unique_ptr<float[]> pages_;   ///< of the group of states: [pages][page_values]
  std::vector<kept_sequence> slots_;
  std::vector<step_copy> copies_;  ///< of the step at hand, of a slot in rising order
  std::vector<step_run> step_;
  // Of the layer at hand: what is left to do, whose it is, and what is done at once.
  std::vector<kernels::recurrent_run> runs_, parts_;
  std::vector<std::uint32_t> left_slots_;
  std::uint32_t columns_ = 0;
};

}  // namespace orcd::gpu
