// SHA-256 of whole blocks of 64 bytes, for host and device code alike: on a GPU each thread hashes its own
// tile (tile_hash.cu). The host uses OpenSSL's, which is faster there and what this is checked against.
// Source: FIPS 180-4.
#pragma once

#include <cstdint>

#include "kernels/device/host_device.hpp"

namespace orcd::kernels {

inline constexpr std::uint64_t sha256_block_bytes = 64;

class sha256_blocks {
 public:
  /// Words as the bytes read, most significant first. `words` is used up.
  ORCD_HD void add(std::uint32_t (&words)[16]);
  /// Ends a message of `bytes`, all of which were added; then `state()` is its hash.
  ORCD_HD void finish(std::uint64_t bytes);
  [[nodiscard]] ORCD_HD std::uint32_t state(int word) const { return state_[word]; }

 private:
  [[nodiscard]] ORCD_HD static std::uint32_t turned(std::uint32_t x, int bits) {
    return x >> bits | x << (32 - bits);
  }
  ORCD_HD static std::uint32_t constant(int round);
  ORCD_HD static void next_words(std::uint32_t (&words)[16]);
  ORCD_HD static void round(std::uint32_t (&s)[8], std::uint32_t word_and_constant);

  std::uint32_t state_[8] = {0x6a09e667U, 0xbb67ae85U, 0x3c6ef372U, 0xa54ff53aU,
                             0x510e527fU, 0x9b05688cU, 0x1f83d9abU, 0x5be0cd19U};
};

inline ORCD_HD std::uint32_t sha256_blocks::constant(int round) {
  constexpr std::uint32_t values[64] = {
      0x428a2f98U, 0x71374491U, 0xb5c0fbcfU, 0xe9b5dba5U, 0x3956c25bU, 0x59f111f1U, 0x923f82a4U, 0xab1c5ed5U,
      0xd807aa98U, 0x12835b01U, 0x243185beU, 0x550c7dc3U, 0x72be5d74U, 0x80deb1feU, 0x9bdc06a7U, 0xc19bf174U,
      0xe49b69c1U, 0xefbe4786U, 0x0fc19dc6U, 0x240ca1ccU, 0x2de92c6fU, 0x4a7484aaU, 0x5cb0a9dcU, 0x76f988daU,
      0x983e5152U, 0xa831c66dU, 0xb00327c8U, 0xbf597fc7U, 0xc6e00bf3U, 0xd5a79147U, 0x06ca6351U, 0x14292967U,
      0x27b70a85U, 0x2e1b2138U, 0x4d2c6dfcU, 0x53380d13U, 0x650a7354U, 0x766a0abbU, 0x81c2c92eU, 0x92722c85U,
      0xa2bfe8a1U, 0xa81a664bU, 0xc24b8b70U, 0xc76c51a3U, 0xd192e819U, 0xd6990624U, 0xf40e3585U, 0x106aa070U,
      0x19a4c116U, 0x1e376c08U, 0x2748774cU, 0x34b0bcb5U, 0x391c0cb3U, 0x4ed8aa4aU, 0x5b9cca4fU, 0x682e6ff3U,
      0x748f82eeU, 0x78a5636fU, 0x84c87814U, 0x8cc70208U, 0x90befffaU, 0xa4506cebU, 0xbef9a3f7U, 0xc67178f2U};
  return values[round];
}

/// The next 16 words of the schedule in place of these.
inline ORCD_HD void sha256_blocks::next_words(std::uint32_t (&w)[16]) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = 0; i < 16; ++i) {
    const std::uint32_t a = w[(i + 1) & 15];
    const std::uint32_t b = w[(i + 14) & 15];
    w[i] +=
        (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[(i + 9) & 15] + (turned(b, 17) ^ turned(b, 19) ^ b >> 10);
  }
}

inline ORCD_HD void sha256_blocks::round(std::uint32_t (&s)[8], std::uint32_t word_and_constant) {
  const std::uint32_t e = s[4];
  const std::uint32_t a = s[0];
  const std::uint32_t one =
      s[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + word_and_constant;
  const std::uint32_t two =
      (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
  s[7] = s[6], s[6] = s[5], s[5] = e, s[4] = s[3] + one;
  s[3] = s[2], s[2] = s[1], s[1] = a, s[0] = one + two;
}

inline ORCD_HD void sha256_blocks::add(std::uint32_t (&words)[16]) {
  std::uint32_t s[8];
  for (int i = 0; i < 8; ++i) s[i] = state_[i];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int group = 0; group < 4; ++group) {
    if (group > 0) next_words(words);
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
    for (int i = 0; i < 16; ++i) round(s, words[i] + constant(16 * group + i));
  }
  for (int i = 0; i < 8; ++i) state_[i] += s[i];
}

/// The padding of a message of whole blocks is a block of its own.
inline ORCD_HD void sha256_blocks::finish(std::uint64_t bytes) {
  std::uint32_t words[16] = {0x80000000U};
  words[14] = static_cast<std::uint32_t>(8 * bytes >> 32);
  words[15] = static_cast<std::uint32_t>(8 * bytes);
  add(words);
}

}  // namespace orcd::kernels
