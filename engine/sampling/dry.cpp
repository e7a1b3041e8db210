#include "engine/sampling/dry.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "engine/sampling/scores.hpp"

namespace orcd::engine {

namespace {

using breaker_row = std::pair<token_id, std::vector<token_id>>;

struct by_head {
  bool operator()(const breaker_row& a, token_id b) const noexcept { return a.first < b; }
  bool operator()(token_id a, const breaker_row& b) const noexcept { return a < b.first; }
};

/// Those that begin with the token.
std::span<const breaker_row> rows_of(const dry_breakers& breakers, token_id token) {
  const auto [begin, end] = std::equal_range(breakers.rows.begin(), breakers.rows.end(), token, by_head{});
  return {begin, end};
}

/// How many tokens the window has behind its last breaker, and its last medium. One that its end cuts is none
/// yet.
std::size_t after_last_breaker(const dry_breakers* breakers, std::span<const token_id> window) {
  const auto medium = std::find(window.rbegin(), window.rend(), media_token);
  if (medium != window.rend()) window = window.last(static_cast<std::size_t>(medium - window.rbegin()));
  if (breakers == nullptr) return window.size();
  for (std::size_t behind = 0; behind < window.size(); ++behind) {
    const std::size_t at = window.size() - 1 - behind;
    std::optional<std::size_t> longest;
    for (const auto& [head, rest] : rows_of(*breakers, window[at])) {
      if (rest.size() > behind) continue;
      if (!std::equal(rest.begin(), rest.end(), window.subspan(at + 1).begin())) continue;
      longest = std::max(longest.value_or(0), rest.size());
    }
    if (longest) return behind - *longest;
  }
  return window.size();
}

/// For each distance back from the end, from 1 on, how many tokens before it are those before the end: the Z
/// function of the reversed window.
void measure_repetitions(std::span<const token_id> window, std::vector<std::uint32_t>& lengths) {
  const std::size_t size = window.size();
  const auto back = [&](std::size_t i) { return window[size - 1 - i]; };
  lengths.assign(size, 0);
  std::size_t from = 0;  // the match that reaches furthest
  std::size_t to = 0;
  for (std::size_t i = 1; i < size; ++i) {
    std::size_t length = i < to ? std::min<std::size_t>(to - i, lengths[i - from]) : 0;
    while (i + length < size && back(length) == back(i + length)) ++length;
    if (i + length > to) {
      from = i;
      to = i + length;
    }
    lengths[i] = static_cast<std::uint32_t>(length);
  }
}

bool breaks_alone(const dry_breakers* breakers, token_id token) {
  if (breakers == nullptr) return false;
  const auto rows = rows_of(*breakers, token);
  return std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.second.empty(); });
}

/// multiplier * base^exponent, within what a score may lose.
float loss(const sampling_params& params, std::uint32_t exponent) noexcept {
  constexpr double most = 0x1.0p126;
  double power = static_cast<double>(params.dry_base);
  double out = static_cast<double>(params.dry_multiplier);
  for (; exponent > 0; exponent >>= 1U) {
    if ((exponent & 1U) != 0) out = std::min(out * power, most);
    power = std::min(power * power, most);
  }
  return static_cast<float>(out);
}

}  // namespace

void penalise_repetitions(const sampling_params& params, std::span<const token_id> seen,
                          sampling_workspace& work) {
  const auto window = seen.last(std::min<std::size_t>(seen.size(), params.dry_last_n));
  const std::uint32_t allowed = params.dry_allowed_length;
  if (window.size() <= allowed) return;
  const std::size_t most = after_last_breaker(params.breakers.get(), window);
  if (most < allowed) return;
  measure_repetitions(window, work.repeated);
  auto& repeating = work.repeating;
  repeating.clear();
  for (std::size_t i = 1; i < window.size(); ++i) {
    const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(work.repeated[i], most));
    if (length >= allowed) repeating.emplace_back(window[window.size() - i], length);
  }
  std::sort(repeating.begin(), repeating.end());
  for (std::size_t i = 0; i < repeating.size(); ++i) {
    const auto [token, length] = repeating[i];
    const bool is_longest = i + 1 == repeating.size() || repeating[i + 1].first != token;
    if (!is_longest || token < 0 || row(token) >= work.scores.size()) continue;
    if (work.scores[row(token)] == never || breaks_alone(params.breakers.get(), token)) continue;
    work.scores[row(token)] -= loss(params, length - allowed);
  }
}

}  // namespace orcd::engine
