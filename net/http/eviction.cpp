#include "net/http/eviction.hpp"

#include <algorithm>
#include <functional>
#include <tuple>

namespace orcd::net {
namespace {

/// Lower ones are closed first.
enum class rank { closing, head_of_many, head, body_of_many, new_head, overdue, unread, body, never };

struct ranked {
  rank group = rank::never;
  /// Of bodies: what the whole share and the address's part of it have once those that go before it are
  /// closed.
  std::size_t whole = 0, part = 0;
  std::uint64_t pace = 0;  ///< of bodies
  std::chrono::milliseconds age{};
  std::size_t index = 0;
};

bool goes_before(const ranked& a, const ranked& b) {
  return std::tie(a.group, b.whole, b.part, a.pace, b.age, a.index) <
         std::tie(b.group, a.whole, a.part, b.pace, a.age, b.index);
}

/// Whether the asker may have what is lost with this connection: its share is smaller, or it is the same.
bool is_within_reach(const place_claim& one, const place_claim& asker) {
  if (asker.whole == nullptr) return true;
  if (one.whole != asker.whole) return places_of(one.whole) > places_of(asker.whole);
  return one.part == asker.part || places_of(one.part) > places_of(asker.part);
}

/// Whether the asker's share is still no larger than the other after one has gone from that to this.
bool is_unfair(const place_claim& one, std::size_t whole, std::size_t part, const place_claim& asker) {
  return one.whole == asker.whole ? part > places_of(asker.part) + 1 : whole > places_of(asker.whole) + 1;
}

bool is_unfair(const place_claim& one, const place_claim& asker) {
  return is_unfair(one, places_of(one.whole), places_of(one.part), asker);
}

bool has_many(const place_claim& one, const eviction_asker& asker) {
  return places_of(one.whole) > asker.few;
}

/// Whether it may be closed for the asker whatever the sizes of their shares will be then.
bool is_overdue(const eviction_candidate& one, const eviction_asker& asker) {
  const auto grace = one.phase == connection_phase::body ? std::chrono::milliseconds(1) : eviction_grace;
  return one.age >= grace && is_within_reach(one.claim, asker.claim);
}

rank rank_of(const eviction_candidate& one, const eviction_asker& asker) {
  const bool many = has_many(one.claim, asker);
  if (asker.beyond_few && !many && one.claim.whole != asker.claim.whole) return rank::never;
  switch (one.phase) {
    case connection_phase::closing: return rank::closing;
    case connection_phase::head:
      if (one.age < eviction_grace && !(asker.has_head && is_within_reach(one.claim, asker.claim))) break;
      if (many) return rank::head_of_many;
      return one.age < eviction_grace ? rank::new_head : rank::head;
    case connection_phase::body:
      if (!is_overdue(one, asker) && !(asker.has_head && is_unfair(one.claim, asker.claim))) break;
      if (many) return rank::body_of_many;
      return is_overdue(one, asker) ? rank::overdue : rank::body;
    case connection_phase::unread:
      if (is_overdue(one, asker)) return rank::unread;
      break;
    case connection_phase::request: break;
  }
  return rank::never;
}

/// Gives each of the bodies what its shares have once those that go before it are closed: in a share the
/// slowest of the address that has most of it.
void count_down(std::span<ranked> bodies, std::span<const eviction_candidate> all) {
  const auto number = [&](place_share* place_claim::*of, std::size_t ranked::*left) {
    const auto share = [&](const ranked& one) { return all[one.index].claim.*of; };
    std::sort(bodies.begin(), bodies.end(), [&](const ranked& a, const ranked& b) {
      return share(a) == share(b) ? goes_before(a, b) : std::less<>()(share(a), share(b));
    });
    std::size_t gone = 0;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      gone = i > 0 && share(bodies[i]) == share(bodies[i - 1]) ? gone + 1 : 0;
      bodies[i].*left = places_of(share(bodies[i])) - gone;
    }
  };
  number(&place_claim::part, &ranked::part);
  number(&place_claim::whole, &ranked::whole);
}

std::vector<ranked> rank_all(std::span<const eviction_candidate> all, const eviction_asker& asker) {
  std::vector<ranked> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ranked one{.group = rank_of(all[i], asker), .age = all[i].age, .index = i};
    if (one.group == rank::never) continue;
    if (all[i].phase == connection_phase::body) one.pace = all[i].pace;
    // Of answers that nobody reads those of shares with many go first, too.
    if (one.group == rank::unread && has_many(all[i].claim, asker)) one.whole = places_of(all[i].claim.whole);
    out.push_back(one);
  }
  return out;
}

}  // namespace

std::chrono::steady_clock::time_point next_part_due(std::chrono::steady_clock::time_point due,
                                                    std::chrono::steady_clock::time_point now,
                                                    std::uint64_t bytes) noexcept {
  const auto bought = std::chrono::milliseconds(std::min<std::uint64_t>(bytes, 1U << 30U) * 1'000 /
                                                body_bytes_per_second_min);
  return std::min(std::max(due, now) + bought, now + eviction_grace);
}

std::uint64_t body_pace(std::uint64_t bytes, std::chrono::milliseconds since_begin) noexcept {
  constexpr std::uint64_t allowed = body_bytes_per_second_min * eviction_grace.count() / 1'000;
  const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(1, since_begin.count()));
  return (std::min<std::uint64_t>(bytes, 1ULL << 40U) + allowed) * 1'000 / ms;
}

std::vector<std::size_t> choose_evicted(std::span<const eviction_candidate> all, std::size_t wanted,
                                        const eviction_asker& asker) {
  std::vector<ranked> found = rank_all(all, asker);
  const auto bodies = std::partition(found.begin(), found.end(), [&](const ranked& one) {
    return all[one.index].phase != connection_phase::body;
  });
  count_down({bodies, found.end()}, all);
  std::erase_if(found, [&](const ranked& one) {
    const auto& it = all[one.index];
    return it.phase == connection_phase::body && !is_overdue(it, asker) &&
           !is_unfair(it.claim, one.whole, one.part, asker.claim);
  });
  for (ranked& one : found) {
    // The bodies of those with few that come too slowly: whose they are is the same.
    if (one.group == rank::overdue) one.whole = one.part = one.pace = 0;
  }
  wanted = std::min(wanted, found.size());
  const auto last = found.begin() + static_cast<std::ptrdiff_t>(wanted);
  std::partial_sort(found.begin(), last, found.end(), goes_before);
  std::vector<std::size_t> out;
  for (auto one = found.begin(); one != last; ++one) out.push_back(one->index);
  return out;
}

}  // namespace orcd::net
