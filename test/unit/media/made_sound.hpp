// Sounds that follow from their length and a seed, as test/oracle/media_sounds.py makes them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace orcd::test {

/// Noise that gets louder and softer every quarter of a second.
inline std::vector<float> made_sound(std::size_t count, std::uint32_t seed) {
  constexpr std::array levels{1.0F, 0.125F, 0.0009765625F, 0.0F, 0.25F};
  constexpr float half = 1U << 23U;
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::uint32_t value = static_cast<std::uint32_t>(i) * 2'654'435'761U + seed * 65'537U;
    value ^= value >> 15U;
    value *= 2'246'822'519U;
    out[i] = (static_cast<float>(value >> 8U) - half) / half * levels[i / 4'000 % levels.size()];
  }
  return out;
}

}  // namespace orcd::test
