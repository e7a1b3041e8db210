#include "engine/sampling/likelihood_cut.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "engine/base/ensure.hpp"

namespace orcd::engine {

namespace {

constexpr unsigned digit_bits = 11;
constexpr std::array<unsigned, 3> digit_shifts = {21, 10, 0};  // the last digit has ten bits of its own

// Finds the first token, from the most likely one on, at which the sum of `measure` is `reached`. Each digit
// of the key narrows the search to the tokens of one bucket; the sum over the tokens above it is `passed`.
// The tokens that are left at the end have the same score, so that they follow by id, the order in which they
// are given.
template <class Measure, class Reached>
likelihood_cut find_cut(std::span<const token_id> tokens, std::span<const float> scores,
                        const Measure& measure, const Reached& reached, std::vector<token_id>& narrowed) {
  ORCD_ENSURE(!tokens.empty());
  narrowed.assign(tokens.begin(), tokens.end());
  const auto key_of = [&](token_id token) { return likelihood_key(scores[static_cast<std::size_t>(token)]); };
  std::array<std::uint64_t, std::size_t{1} << digit_bits> sums;
  std::uint64_t passed = 0;
  unsigned digit_end = 32;
  for (const unsigned shift : digit_shifts) {
    const std::uint32_t mask = (1U << (digit_end - shift)) - 1U;
    digit_end = shift;
    sums.fill(0);
    for (const token_id token : narrowed) sums[(key_of(token) >> shift) & mask] += measure(token);
    std::uint32_t digit = mask;
    while (digit > 0 && !reached(passed + sums[digit])) passed += sums[digit--];
    std::erase_if(narrowed, [&](token_id token) { return ((key_of(token) >> shift) & mask) != digit; });
    ORCD_ENSURE(!narrowed.empty());
  }
  for (const token_id token : narrowed) {
    passed += measure(token);
    if (reached(passed)) return {key_of(token), token};
  }
  return {key_of(narrowed.back()), narrowed.back()};
}

}  // namespace

likelihood_cut cut_after_count(std::span<const token_id> tokens, std::span<const float> scores,
                               std::uint64_t count, std::vector<token_id>& narrowed) {
  ORCD_ENSURE(count > 0 && count < tokens.size());
  const auto one = [](token_id) { return std::uint64_t{1}; };
  return find_cut(
      tokens, scores, one, [count](std::uint64_t sum) { return sum >= count; }, narrowed);
}

likelihood_cut cut_after_share(std::span<const token_id> tokens, std::span<const float> scores,
                               std::span<const std::uint64_t> weights, double share,
                               std::vector<token_id>& narrowed) {
  const auto weight = [&](token_id token) { return weights[static_cast<std::size_t>(token)]; };
  std::uint64_t total = 0;
  for (const token_id token : tokens) total += weight(token);
  const double need = share * static_cast<double>(total);
  const auto reached = [need](std::uint64_t sum) { return static_cast<double>(sum) >= need; };
  return find_cut(tokens, scores, weight, reached, narrowed);
}

}  // namespace orcd::engine
