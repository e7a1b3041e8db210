#include "net/http/eviction.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace orcd::net {
namespace {

struct ranked {
  int group = 0;  ///< lower groups are closed first
  std::chrono::milliseconds age{};
  std::size_t index = 0;
};

/// The group that it belongs to; nullopt: it may not be closed now.
std::optional<int> group_of(const eviction_candidate& one, std::chrono::milliseconds head_grace) {
  switch (one.phase) {
    case connection_phase::closing: return 0;
    case connection_phase::head: return one.age >= head_grace ? std::optional(1) : std::nullopt;
    case connection_phase::body: return one.age.count() > 0 ? std::optional(2) : std::nullopt;
    case connection_phase::unread: return one.age >= eviction_grace ? std::optional(3) : std::nullopt;
    case connection_phase::request: break;
  }
  return std::nullopt;
}

}  // namespace

std::chrono::steady_clock::time_point next_part_due(std::chrono::steady_clock::time_point due,
                                                    std::chrono::steady_clock::time_point now,
                                                    std::uint64_t bytes) noexcept {
  const auto bought = std::chrono::milliseconds(std::min<std::uint64_t>(bytes, 1U << 30U) * 1'000 /
                                                body_bytes_per_second_min);
  return std::min(std::max(due, now) + bought, now + eviction_grace);
}

std::vector<std::size_t> choose_evicted(std::span<const eviction_candidate> all, std::size_t wanted,
                                        std::chrono::milliseconds head_grace) {
  std::vector<ranked> candidates;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (const auto group = group_of(all[i], head_grace)) candidates.push_back({*group, all[i].age, i});
  }
  wanted = std::min(wanted, candidates.size());
  const auto last = candidates.begin() + static_cast<std::ptrdiff_t>(wanted);
  std::partial_sort(candidates.begin(), last, candidates.end(), [](const ranked& a, const ranked& b) {
    return std::tie(a.group, b.age, a.index) < std::tie(b.group, a.age, b.index);
  });
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < wanted; ++i) out.push_back(candidates[i].index);
  return out;
}

}  // namespace orcd::net
