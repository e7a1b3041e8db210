#include "engine/base/sha256.hpp"

#include <openssl/evp.h>

#include <array>
#include <new>

#include "engine/base/ensure.hpp"
#include "engine/base/hexadecimal.hpp"

namespace orcd::engine {

struct sha256::state {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

// EVP_DigestInit_ex() fails only for lack of memory: OpenSSL always has SHA-256.
sha256::sha256() : state_(std::make_unique<state>()) {
  if (!state_->context || EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) != 1) {
    throw std::bad_alloc();
  }
}

sha256::~sha256() = default;

void sha256::update(std::span<const std::byte> piece) {
  ORCD_ENSURE(EVP_DigestUpdate(state_->context.get(), piece.data(), piece.size()) == 1);
}

std::string sha256::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int length = 0;
  ORCD_ENSURE(EVP_DigestFinal_ex(state_->context.get(), hash.data(), &length) == 1);
  return hexadecimal(std::span(hash).first(length));
}

std::string sha256_of(std::span<const std::byte> bytes) {
  sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

}  // namespace orcd::engine
