// Where the matrices of LoRA adapters lie in the room that is planned for each: every matrix of the model
// that an adapter may be beside has a place for A and B of the highest rank, so that whatever fits the plan
// fits the room. A place has room for rows of a multiple of four floats, whichever way a backend keeps A and
// B. Matrices of experts have none. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/base/error.hpp"
#include "engine/lora/adapter.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

struct adapter_place {
  engine::lora_target target{};
  std::uint32_t layer = 0;  ///< 0 for output and token_embd
  std::uint32_t in = 0, out = 0;
  std::uint64_t a_at = 0;  ///< first float of A in the room of an adapter; a multiple of 4
  std::uint64_t b_at = 0;  ///< of B, likewise
};

class adapter_layout {
 public:
  adapter_layout() = default;  ///< without a place
  adapter_layout(const engine::model& m, engine::adapter_room room);

  /// The index of a place, or -1 where the model has no such matrix.
  [[nodiscard]] std::int32_t find(engine::lora_target target, std::uint32_t layer) const noexcept;
  [[nodiscard]] const std::vector<adapter_place>& places() const noexcept { return places_; }
  /// Floats of one adapter's room.
  [[nodiscard]] std::uint64_t floats() const noexcept { return floats_; }
  /// Whether put_adapter() may copy it: its index, ranks and shapes, and that its values are all there.
  /// Errors: model_load_failed, which name the matrix.
  [[nodiscard]] engine::result<void> check(std::uint32_t index, const engine::lora_adapter& adapter) const;

 private:
  void add(const engine::tensor_view* matrix, engine::lora_target target, std::uint32_t layer);

  engine::adapter_room room_{};
  std::vector<adapter_place> places_;
  std::vector<std::int32_t> place_of_;  ///< [layers][targets]
  std::uint64_t floats_ = 0;
};

/// An error (model_load_failed) where adapters are to have room that this model cannot use.
[[nodiscard]] engine::result<void> check_adapter_room(const engine::model& m, engine::adapter_room room);

}  // namespace orcd::gpu
