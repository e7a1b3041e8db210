// From samples to what a tower of Whisper's kind hears: how strong each of some bands is, every hundredth of
// a second. Equal to transformers' WhisperFeatureExtractor within 1e-6, for a sound that is filled up with
// silence to whole chunks. The same bits on every processor: f64, plain operations, one order. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/media/sound.hpp"

namespace orcd::engine {

/// Of samples at sound_rate, at least one. `bins`: bands from 0 to 8,000 Hz. Throws std::bad_alloc.
[[nodiscard]] prepared_sound log_mel(std::span<const float> samples, std::uint32_t bins);

/// Chunks that so many samples fill or begin.
[[nodiscard]] constexpr std::uint32_t chunks_of(std::uint64_t samples) noexcept {
  return static_cast<std::uint32_t>((samples + chunk_samples - 1) / chunk_samples);
}

}  // namespace orcd::engine
