// Translates a step's requests and results between the scheduler and the device, and sizes the ring of
// results that the host reads while the device goes on: pinned memory, at most 96 KiB. Plain functions.
#pragma once

#include <cstdint>

#include "engine/accelerator.hpp"
#include "kernels/sample/sample_args.hpp"

namespace orcd::gpu {

/// Steps under way at most.
inline constexpr std::uint32_t launch_depth = 2;
/// So many results for each step under way.
[[nodiscard]] std::uint64_t result_ring_bytes(std::uint32_t results) noexcept;

/// Drafts of a step, of up to `wanted`, whose results a step has room for beside those of the slots.
[[nodiscard]] std::uint32_t drafts_that_fit(std::uint32_t slots, std::uint32_t wanted) noexcept;

/// `result` is the index in the ring, `mask` the row of its mask, if it has one. The request was validated:
/// windows up to sample_window_max, draw in [0, 1). Of a request that needs the logits the device's choice is
/// not used.
[[nodiscard]] kernels::sample_request device_request(const engine::sample_request& asked,
                                                     std::uint32_t result, std::uint32_t mask = 0);
[[nodiscard]] engine::sampled_token sampled_from(engine::slot_id slot, const kernels::sample_result& result);

}  // namespace orcd::gpu
