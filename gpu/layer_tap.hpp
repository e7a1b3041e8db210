// Named intermediate values of a forward pass, for tests that compare implementations layer by layer.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace orcd::gpu {

/// Called on the thread of step() with named intermediate values: `layer` is the layer's index (0 for
/// "embedding"; the number of layers for "output_norm" and "logits"), `values` all tokens of the step, one
/// after another. host_forward.cpp lists the names; the CUDA backend gives those that exist in its memory.
using layer_tap =
    std::function<void(std::string_view name, std::uint32_t layer, std::span<const float> values)>;

}  // namespace orcd::gpu
