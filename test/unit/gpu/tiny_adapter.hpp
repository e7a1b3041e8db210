// Random LoRA adapters for the small models of the tests, and models with them merged into their weights.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "engine/lora/adapter.hpp"
#include "engine/model/model_spec.hpp"
#include "test/support/gguf_writer.hpp"

namespace orcd::test {

struct tiny_adapter_options {
  std::uint32_t rank = 4;  ///< some pairs have less
  std::uint64_t seed = 1;
  float size = 1.0F;                                     ///< 1: B (A x) is about as large as x
  std::function<bool(engine::lora_target)> wanted = {};  ///< unset: every matrix that there is
};

/// Beside every wanted matrix of the model; the digest is made of the options.
[[nodiscard]] engine::lora_adapter make_tiny_adapter(const engine::model& m,
                                                     const tiny_adapter_options& options);

/// The image of a model of F32 matrices with strength * scale * B A added to them.
[[nodiscard]] bytes merged(bytes image, const engine::lora_adapter& adapter, float strength);

/// The same model with its Q8_0 matrices in F32, so that adapters can be merged into it.
[[nodiscard]] bytes in_f32(const bytes& image);

}  // namespace orcd::test
