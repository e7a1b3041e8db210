// Hash functions of the vocabulary and merge tables. Not for adversarial keys: only the model file decides
// what is stored, so that no text can make lookups slow.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace orcd::engine {

__extension__ typedef unsigned __int128 wide_product;

[[nodiscard]] inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  const wide_product product = static_cast<wide_product>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

[[nodiscard]] inline std::uint64_t hash_pair(std::uint64_t key) noexcept {
  return mix(key ^ 0x9E3779B97F4A7C15u, 0xD6E8FEB86659FD93u);
}

[[nodiscard]] inline std::uint64_t hash_bytes(std::string_view text) noexcept {
  constexpr std::uint64_t k0 = 0x9E3779B97F4A7C15u;
  constexpr std::uint64_t k1 = 0xD6E8FEB86659FD93u;
  const char* p = text.data();
  std::size_t n = text.size();
  const auto load8 = [](const char* from) {
    std::uint64_t v;
    std::memcpy(&v, from, 8);
    return v;
  };
  std::uint64_t h = n * k1;
  for (; n > 16; p += 8, n -= 8) h = mix(h ^ load8(p), k0);
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  if (n >= 8) {
    a = load8(p);
    b = load8(p + n - 8);
  } else if (n > 0) {
    for (std::size_t i = 0; i < n; ++i) a = a << 8 | static_cast<unsigned char>(p[i]);
  }
  return mix(a ^ h ^ k0, b ^ k1);
}

}  // namespace orcd::engine
