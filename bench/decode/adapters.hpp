// LoRA adapters for benchmarks: random values beside the seven matrices of every layer.
#pragma once

#include <cstdint>

#include "engine/lora/adapter.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::bench {

/// Beside queries, keys, values, attention's output, gate, up and down, fused where the model has them fused;
/// matrices of experts have none. Small, so that the activations stay those of the model.
[[nodiscard]] engine::lora_adapter make_adapter(const engine::model& m, std::uint32_t rank,
                                                std::uint32_t seed);

}  // namespace orcd::bench
