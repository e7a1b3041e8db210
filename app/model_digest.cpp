#include "app/model_digest.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

namespace orcd::app {

std::optional<std::string> model_digest(std::span<const std::span<const std::byte>> parts,
                                        const std::stop_token& stop) {
  // Small enough that a stop is obeyed within milliseconds.
  constexpr std::size_t piece_bytes = 4 << 20;
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  if (!hash || EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) != 1) return std::nullopt;
  for (auto part : parts) {
    while (!part.empty()) {
      if (stop.stop_requested()) return std::nullopt;
      const auto piece = part.first(std::min(piece_bytes, part.size()));
      if (EVP_DigestUpdate(hash.get(), piece.data(), piece.size()) != 1) return std::nullopt;
      part = part.subspan(piece.size());
    }
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
  unsigned size = 0;
  if (EVP_DigestFinal_ex(hash.get(), raw.data(), &size) != 1) return std::nullopt;
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "sha256:";
  for (unsigned i = 0; i < size; ++i) {
    out += digits[raw[i] >> 4U];
    out += digits[raw[i] & 15U];
  }
  return out;
}

}  // namespace orcd::app
