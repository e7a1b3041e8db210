// SHA-256 of bytes that come in pieces. One thread at a time; throws nothing but bad_alloc.
// Source: FIPS 180-4, by OpenSSL.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace orcd::engine {

class sha256 {
 public:
  sha256();
  ~sha256();
  sha256(const sha256&) = delete;
  sha256& operator=(const sha256&) = delete;

  void update(std::span<const std::byte> piece);
  void update(std::string_view piece) { update(std::as_bytes(std::span(piece.data(), piece.size()))); }
  /// 64 hexadecimal digits of everything so far; the object is of no use after it.
  [[nodiscard]] std::string finish();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Of all of it at once: 64 hexadecimal digits.
[[nodiscard]] std::string sha256_of(std::span<const std::byte> bytes);
[[nodiscard]] inline std::string sha256_of(std::string_view text) {
  return sha256_of(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace orcd::engine
