#include "engine/schedule/draft_plan.hpp"

#include <algorithm>

namespace orcd::engine {
namespace {

// Before anything is known of a sequence, as if so many drafts had been tried and so many been right.
constexpr double tried_before = 2.0;
constexpr std::array<double, draft_kinds> right_before{0.45, 0.6, 0.75, 0.85, 0.8};
// What a new observation leaves of the older ones, and what a guess that was passed over leaves of them.
constexpr double kept_by_note = 0.95;
constexpr double kept_by_pass = 0.997;
// A step with drafts must be so much better than one without: it cannot be launched ahead, and what is not
// known well is easily overrated.
constexpr double least_gain = 1.04;

}  // namespace

double draft_record::likely(std::uint32_t kind) const noexcept {
  const counts& seen = of_[kind];
  return (seen.right + tried_before * right_before[kind]) / (seen.tried + tried_before);
}

// Drafts after a wrong one say nothing.
void draft_record::note(std::uint32_t kind, std::uint32_t drafts, std::uint32_t accepted) noexcept {
  counts& seen = of_[kind];
  seen.tried = seen.tried * kept_by_note + accepted + (accepted < drafts ? 1 : 0);
  seen.right = seen.right * kept_by_note + accepted;
}

void draft_record::pass(std::uint32_t kind) noexcept {
  of_[kind].tried *= kept_by_pass;
  of_[kind].right *= kept_by_pass;
}

// The n-th draft of a sequence adds likely^n tokens, so that each next one adds less, and taking the largest
// gain of all sequences again and again finds the best choice for every number of drafts. The cost has steps:
// all numbers are looked at.
void choose_drafts(std::span<draft_offer> offers, std::uint32_t tokens, std::uint32_t room,
                   const std::function<double(std::uint32_t)>& cost) {
  for (draft_offer& offer : offers) offer.taken = 0;
  const auto next_gain = [](const draft_offer& offer) {
    double gain = offer.taken < offer.most ? offer.likely : 0.0;
    for (std::uint32_t i = 0; i < offer.taken; ++i) gain *= offer.likely;
    return gain;
  };
  const auto next_best = [&] {
    return std::max_element(offers.begin(), offers.end(),
                            [&](const auto& a, const auto& b) { return next_gain(a) < next_gain(b); });
  };
  double gained = tokens;
  double best = least_gain * gained / cost(tokens);
  std::uint32_t best_count = 0;
  std::uint32_t count = 0;
  while (count < room) {
    const auto offer = next_best();
    if (offer == offers.end() || next_gain(*offer) <= 0.0) break;
    gained += next_gain(*offer);
    ++offer->taken;
    ++count;
    if (gained / cost(tokens + count) <= best) continue;
    best = gained / cost(tokens + count);
    best_count = count;
  }
  // The same choices once more, as far as they pay.
  for (draft_offer& offer : offers) offer.taken = 0;
  for (std::uint32_t i = 0; i < best_count; ++i) ++next_best()->taken;
}

void take_drafts(std::span<draft_offer> offers, std::uint32_t room) noexcept {
  for (draft_offer& offer : offers) {
    offer.taken = std::min(offer.most, room);
    room -= offer.taken;
  }
}

}  // namespace orcd::engine
