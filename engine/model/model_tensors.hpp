// All tensors of a model, one after the other, and the bytes that decoding reads of them: what a decode rate
// is compared with the memory's speed by. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "engine/model/model_spec.hpp"

namespace orcd::engine {

/// Calls `visit` for every tensor that the model has, once per payload (a tied output is not repeated).
void for_each_tensor(const model_weights& weights, const std::function<void(const tensor_view&)>& visit);

/// The same, in the same order, to be bound to other memory.
[[nodiscard]] std::vector<tensor_view*> tensors_of(model_weights& weights);

using layer_tensor = tensor_view layer_weights::*;
/// Norms, biases, sinks and what else is no matrix of a layer.
[[nodiscard]] std::span<const layer_tensor> layer_vectors() noexcept;

/// Bytes of all payloads.
[[nodiscard]] std::uint64_t payload_bytes(const model_weights& weights);

/// Every weight once as the file stores it, but of the embedding nothing unless it is the output matrix
/// too, and of stacked experts only the share that one token uses.
[[nodiscard]] std::uint64_t bytes_read_per_token(const model& m);

/// What the stream is multiplied by at the layer's end (layer_output_scale): 1 where the file does not say,
/// which it may for some layers alone.
[[nodiscard]] float output_scale_of(const layer_weights& layer) noexcept;

/// K and V in f16 of `positions` positions in every layer, at most the window where a layer has one.
[[nodiscard]] std::uint64_t kv_bytes_read(const model_spec& spec, std::uint32_t positions);

}  // namespace orcd::engine
