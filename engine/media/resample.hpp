// Brings samples to another rate: a windowed sinc for each place that an output can have between two inputs.
// The bits depend on the samples and the two rates alone: sums are in f64 and in one order, and the
// coefficients come from plain operations. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace orcd::engine {

/// Samples that so many become: those that begin before the sound ends.
[[nodiscard]] std::uint64_t resampled_count(std::uint64_t samples, std::uint32_t from,
                                            std::uint32_t to) noexcept;

/// Rates are within sound_limits. What lies beyond either end is 0. Flat to 0.86 of the lower rate's half,
/// 100 dB down beyond that half. Throws std::bad_alloc.
[[nodiscard]] std::vector<float> resample(std::span<const float> samples, std::uint32_t from,
                                          std::uint32_t to);

}  // namespace orcd::engine
