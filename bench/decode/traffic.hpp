// Bytes that decoding one token has to read, from the tensors of the model: what a decode rate is
// compared with the memory's speed by.
#pragma once

#include <cstdint>

#include "engine/model/model_spec.hpp"

namespace orcd::bench {

/// Every weight once as the file stores it, but of the embedding nothing unless it is the output matrix
/// too, and of stacked experts only the share that one token uses.
[[nodiscard]] std::uint64_t weight_bytes_per_token(const engine::model& m);

/// K and V in f16 of `positions` positions in every layer, at most the window where a layer has one.
[[nodiscard]] std::uint64_t kv_bytes_read(const engine::model_spec& spec, std::uint32_t positions);

}  // namespace orcd::bench
