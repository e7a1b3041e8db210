// The LoRA adapters of the CUDA backend: an arena with room for them, the table of what each slot's sequence
// has, and the launches that add them to a step's products. Steps in which no sequence has one launch nothing
// of it. GPU thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/adapter_arena.hpp"
#include "gpu/plan/adapter_layout.hpp"
#include "gpu/plan/adapter_pieces.hpp"
#include "kernels/layer/lora.hpp"

namespace orcd::gpu {

class cuda_adapters {
 public:
  /// Without room nothing is allocated and no call does anything. Throws accelerator_failure.
  cuda_adapters(const engine::model& m, engine::adapter_room room, const cuda_extents& extents, int device,
                cudaStream_t stream);
  [[nodiscard]] static std::uint64_t bytes(const engine::model& m, engine::adapter_room room,
                                           const cuda_extents& extents);
  [[nodiscard]] const vram_arena& arena() const noexcept { return arena_; }

  /// As the accelerator's put_adapter(), begin_adapter() and continue_adapter(). Throw accelerator_failure.
  [[nodiscard]] engine::result<void> put(std::uint32_t index, const engine::lora_adapter& adapter);
  [[nodiscard]] engine::result<void> begin(std::uint32_t index, const engine::lora_adapter& adapter);
  [[nodiscard]] bool go_on();
  void drop(std::uint32_t index) noexcept;
  /// Enqueues what the slot's sequence has from now on. Throws accelerator_failure.
  void use(engine::slot_id slot, std::span<const engine::active_adapter> adapters);

  /// The next launches are for a step of these slots.
  void begin_step(std::span<const engine::slot_id> slots) noexcept;
  /// Enqueues what a pass of so many columns needs before its layers.
  void prepare_pass(std::uint32_t columns, const kernels::step_token* steps);
  /// Whether any column of the step has an adapter.
  [[nodiscard]] bool some() const noexcept { return some_; }
  /// Whether an adapter of the step has a pair beside gate or up of the layer.
  [[nodiscard]] bool changes_gate_up(std::uint32_t layer) const noexcept;

  /// Graphs of steps with adapters launch what some adapters would need, whatever the step's have: those
  /// beside attention's matrices alone, and those beside any matrix of a layer.
  static constexpr std::uint32_t graph_kinds = 2;
  [[nodiscard]] bool has_room() const noexcept { return room_.count > 0; }
  /// The next launches are for a graph of this kind; end_graph() ends that.
  void begin_graph(std::uint32_t kind) noexcept;
  void end_graph() noexcept { some_ = program_takes_ = false; }
  /// The next step is for the program's own first run, before anybody has an adapter; until end_graph().
  void begin_program() noexcept { some_ = program_takes_ = true; }
  /// The first kind that launches all that the step's adapters need; none: graph_kinds.
  [[nodiscard]] std::uint32_t kind_of_step() const noexcept;

  /// Describes a decode program of `phases` phases, in which adapters may change these products, on the
  /// device; `inner`: flagged words for it (kernels::program_adapters). Throws accelerator_failure.
  [[nodiscard]] kernels::program_adapters write_program(std::span<const adapted_product> products,
                                                        std::uint32_t phases, std::uint64_t* inner);
  /// Whether every place in the rooms can be named in a kernels::program_pair.
  [[nodiscard]] bool places_fit_program() const noexcept {
    return room_.count * layout_.floats() / 4 <= std::numeric_limits<std::uint32_t>::max();
  }
  /// Whether the program can add what the step's adapters have: those of one sequence, beside matrices of
  /// layers, and not too many ranks.
  [[nodiscard]] bool program_takes() const noexcept { return program_takes_; }
  /// Before a launch of the program: tells it what the step's sequence has, if it was told of another or that
  /// has changed. Throws accelerator_failure.
  void describe_to_program();

  /// y += what the columns' adapters have beside the matrices that read x; nothing is launched for those that
  /// no adapter of the step has. `rows`: kernels::lora_columns.
  void add(std::span<const lora_output> outputs, std::uint32_t layer, const lora_input& x, float* y,
           std::uint32_t y_stride, std::uint32_t columns, const kernels::step_token* steps,
           const std::int32_t* rows = nullptr);
  /// Gate and up in f32, [columns][2 * ffn], of models whose product activates them itself.
  [[nodiscard]] float* gate_up() const noexcept { return arena_.at<float>(places_.gate_up); }
  /// What norms to int8 leave behind in f32, [columns][widest].
  [[nodiscard]] float* floats() const noexcept { return arena_.at<float>(places_.floats); }
  /// gate_up() with what the adapters have beside gate and up, activated, to f16.
  void add_gate_up(std::uint32_t layer, const lora_input& x, std::uint32_t width, bool clamped, __half* act,
                   std::uint32_t act_stride, std::uint32_t columns, const kernels::step_token* steps);

 private:
  /// The arguments of a product; without matrices if no adapter of the step has a pair beside one.
  [[nodiscard]] kernels::lora_add_args args_of(std::span<const lora_output> outputs, std::uint32_t layer,
                                               const lora_input& x, std::uint32_t columns,
                                               const kernels::step_token* steps,
                                               const std::int32_t* rows) const noexcept;
  /// The next product behind one of `target` that an adapter of the step changes.
  [[nodiscard]] kernels::lora_next next_of(engine::lora_target target, std::uint32_t layer) const noexcept;
  void copy_piece(std::span<const adapter_part> piece);
  void write_held(std::uint32_t index);
  [[nodiscard]] kernels::lora_tables tables() const noexcept;
  [[nodiscard]] const adapter_place& place_of(std::int32_t at) const noexcept;
  /// The place's matrix, whose outputs begin at `y_at` of the product's.
  [[nodiscard]] kernels::lora_matrix matrix_of(std::int32_t at, std::uint32_t y_at) const noexcept;
  [[nodiscard]] bool step_has(std::int32_t place) const noexcept {
    return place >= 0 && step_has_[static_cast<std::size_t>(place)] != 0;
  }

  engine::adapter_room room_;
  adapter_layout layout_;
  adapter_arena places_;
  vram_arena arena_;
  cudaStream_t stream_;
  std::vector<kernels::lora_held> held_;                     ///< [room.count][places]
  std::vector<bool> present_;                                ///< [room.count]
  std::vector<std::vector<engine::active_adapter>> in_use_;  ///< [slots]; capacity is kept
  /// An adapter on its way.
  struct upload {
    std::uint32_t index = 0;
    adapter_pieces pieces;
    std::chrono::steady_clock::time_point begin;
    bool all_sent = false;
  };
  std::optional<upload> upload_;
  owned_stream copy_stream_;
  event sent_;  ///< all that go_on() waits for has been done when it has passed
  std::vector<std::uint8_t> graph_has_[graph_kinds];  ///< [places]: what the kind launches
  // Of the step.
  std::vector<std::uint8_t> step_has_;  ///< [places]: an adapter of any column has a pair there
  bool one_slot_ = false;
  const kernels::lora_found* found_ = nullptr;  ///< of the pass; null where each kernel looks it up
  bool some_ = false;
  bool program_takes_ = false;
  engine::slot_id step_slot_{};               ///< of a step that the program takes
  std::optional<engine::slot_id> described_;  ///< whose adapters the program knows
  std::uint32_t program_phases_ = 0;
};

}  // namespace orcd::gpu
