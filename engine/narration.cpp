#include "engine/narration.hpp"

#include <openssl/evp.h>

#include <array>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

std::string prompt_digest(std::string_view prompt) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int length = 0;
  // Fails only when the library cannot give SHA-256 at all, which no input can cause.
  ORCD_ENSURE(EVP_Digest(prompt.data(), prompt.size(), hash.data(), &length, EVP_sha256(), nullptr) == 1);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "sha256:";
  out.reserve(out.size() + std::size_t{2} * length);
  for (unsigned int i = 0; i < length; ++i) {
    out.push_back(digits[hash[i] >> 4U]);
    out.push_back(digits[hash[i] & 15U]);
  }
  return out;
}

}  // namespace orcd::engine
