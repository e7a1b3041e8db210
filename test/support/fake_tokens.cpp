#include "test/support/fake_tokens.hpp"

#include <bit>

#include "test/support/fake_accelerator.hpp"

namespace orcd::test {

using engine::token_id;

namespace {

constexpr std::uint64_t no_tokens = 0xcbf29ce484222325ULL;

std::uint64_t with_token(std::uint64_t hash, token_id token) {
  return (hash ^ static_cast<std::uint32_t>(token)) * 0x100000001b3ULL;
}

}  // namespace

std::vector<std::uint64_t> hashes_of(std::span<const token_id> tokens, std::uint64_t flavour) {
  std::vector<std::uint64_t> out;
  for (const token_id token : tokens)
    out.push_back(with_token(out.empty() ? no_tokens ^ flavour : out.back(), token));
  return out;
}

token_id hashed_token(std::span<const token_id> sequence, token_id first, std::uint32_t count) {
  std::uint64_t hash = no_tokens;
  for (const token_id token : sequence) hash = with_token(hash, token);
  return first + static_cast<token_id>((hash >> 32U) % count);
}

std::uint64_t flavour_of(const fake_adapters& adapters) {
  if (adapters.empty()) return 0;
  std::uint64_t hash = no_tokens;
  for (const auto& [digest, strength] : adapters) {
    for (const char c : digest) hash = with_token(hash, c);
    hash = with_token(hash, std::bit_cast<std::int32_t>(strength));
  }
  return hash;
}

engine::pooled_values pooled_of(std::span<const token_id> sequence) {
  return std::make_shared<std::vector<float>>(std::vector<float>{
      static_cast<float>(hashed_token(sequence, 0, 65'536)), static_cast<float>(sequence.size())});
}

}  // namespace orcd::test
