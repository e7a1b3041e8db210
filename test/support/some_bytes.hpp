// Bytes that look random and are the same each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace orcd::test {

[[nodiscard]] inline std::vector<std::byte> some_bytes(std::size_t count) {
  std::vector<std::byte> out(count);
  std::uint32_t state = 1;
  for (std::byte& b : out) {
    state = state * 1664525U + 1013904223U;
    b = static_cast<std::byte>(state >> 24U);
  }
  return out;
}

}  // namespace orcd::test
