#include "net/journal/answer_identity.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "engine/base/sha256.hpp"

namespace orcd::net {
namespace {

constexpr int hexadecimal = 16;
constexpr std::size_t digits = 16;  // of 64 bits

bool is_shared(std::uint64_t number, const weights_identity& with) noexcept {
  return number != 0 && (number == with.files || number == with.mapped);
}

}  // namespace

std::uint64_t number_of(std::string_view text) {
  const std::string hash = engine::sha256_of(text).substr(0, digits);
  std::uint64_t out = 0;
  std::from_chars(hash.data(), hash.data() + hash.size(), out, hexadecimal);
  return std::max<std::uint64_t>(out, 1);
}

std::uint64_t number_of(const std::vector<std::uint64_t>& parts) {
  std::string text;
  for (const auto part : parts) text += std::to_string(part) + '\n';
  return number_of(text);
}

bool are_same(const weights_identity& a, const weights_identity& b) noexcept {
  return is_shared(a.files, b) || is_shared(a.mapped, b) || (a.digest != 0 && a.digest == b.digest);
}

std::optional<std::uint32_t> difference(const answer_identity& a, const answer_identity& b) noexcept {
  const auto both = std::min(a.parts.size(), b.parts.size());
  for (std::size_t i = 0; i < both; ++i) {
    if (a.parts[i] != b.parts[i]) return static_cast<std::uint32_t>(i);
  }
  if (a.parts.size() != b.parts.size()) return static_cast<std::uint32_t>(both);
  if (!are_same(a.weights, b.weights)) return weights_differ;
  return std::nullopt;
}

}  // namespace orcd::net
