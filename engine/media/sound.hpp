// A sound as samples, and what becomes of it before a tower hears it. Plain data; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orcd::engine {

/// Mono: channels are averaged. Every sample is finite, and there is at least one.
struct sound {
  std::uint32_t rate = 0;  ///< samples a second
  std::vector<float> samples;
};

/// What towers are given: so many samples a second, in chunks of so many.
inline constexpr std::uint32_t sound_rate = 16'000;
inline constexpr std::uint32_t sound_hop = 160;  ///< samples from one frame to the next
inline constexpr std::uint32_t chunk_samples = 30 * sound_rate;
inline constexpr std::uint32_t chunk_frames = chunk_samples / sound_hop;

/// What a tower wants of a sound, from its file.
struct sound_rules {
  std::uint32_t bins = 0;   ///< of a frame
  std::uint32_t stack = 1;  ///< so many positions of the tower, of two frames each, become one row
};

/// Log-mel values in whole chunks.
struct prepared_sound {
  std::uint32_t bins = 0;
  std::uint32_t chunks = 0;
  std::vector<float> frames;  ///< [chunks][chunk_frames][bins]
};

/// Ends of what a file can be.
struct sound_limits {
  static constexpr std::uint32_t rate_min = 8'000;
  static constexpr std::uint32_t rate_max = 192'000;
  static constexpr std::uint32_t channels_max = 64;
  /// Of a sample of floating point: what is meant to lie within 1 may be louder, but no number of its own.
  static constexpr double loudest = 1e6;
};

}  // namespace orcd::engine
