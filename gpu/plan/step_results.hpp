// Translates a step's requests and results between the scheduler and the device, and sizes the ring of
// results that the host reads while the device goes on: at most 64 KiB of pinned memory. Plain functions.
#pragma once

#include <cstdint>

#include "engine/accelerator.hpp"
#include "kernels/sample/sample_args.hpp"

namespace orcd::gpu {

inline constexpr std::uint64_t result_ring_bytes_max = 64 * 1024;

/// Most steps under way: two if the results of two fit the ring, else one.
[[nodiscard]] std::uint32_t launch_depth_for(std::uint32_t slots) noexcept;
/// One result for each slot and each step under way.
[[nodiscard]] std::uint64_t result_ring_bytes(std::uint32_t slots) noexcept;

/// `result` is the index in the ring. The request was validated: windows up to sample_window_max, draw in
/// [0, 1).
[[nodiscard]] kernels::sample_request device_request(const engine::sample_request& asked,
                                                     std::uint32_t result);
[[nodiscard]] engine::sampled_token sampled_from(engine::slot_id slot, const kernels::sample_result& result);

}  // namespace orcd::gpu
