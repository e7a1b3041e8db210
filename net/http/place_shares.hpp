// Who holds how many of the places for connections: those of one API key's tenant are a share, and without a
// key those of one address. What is beyond few in a share may take only a part of all places, so that who has
// few connections finds a place, whoever floods. io thread only. Private to net/.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace orcd::net {

struct place_share {
  std::string name{};
  std::size_t members = 0;  ///< connections of this share, with a place and without
  std::size_t places = 0;
};

/// What one connection is counted in.
struct place_claim {
  place_share* whole = nullptr;  ///< the tenant's or, without a key, the address's
  place_share* part = nullptr;   ///< what the address has of the tenant's; without a key the same as `whole`
  bool holds = false;            ///< one of the places
};

/// Of a share that nobody is in: 0.
[[nodiscard]] constexpr std::size_t places_of(const place_share* share) noexcept {
  return share == nullptr ? 0 : share->places;
}

/// One in so many of the places is few: 16 of 1,024, about what the pool of one client opens, and far less
/// than a flood needs.
constexpr std::size_t few_of_places = 64;
/// One in so many is kept for shares with few: 128 of 1,024 are several times as many requests as a worker
/// computes and lets wait by default, and a proxy, which is one address, has the rest.
constexpr std::size_t kept_of_places = 8;

/// How many of `places` are few.
[[nodiscard]] std::size_t few_places(std::size_t places) noexcept;
/// How many of them one share may have at most.
[[nodiscard]] std::size_t most_of_a_share(std::size_t places) noexcept;

class place_shares {
 public:
  explicit place_shares(std::size_t places) : places_(places) {}
  place_shares(const place_shares&) = delete;
  place_shares& operator=(const place_shares&) = delete;

  /// There are so many places from now on; who holds one keeps it.
  void set_places(std::size_t places) noexcept;

  /// Counts the claim with this tenant or, where that is empty, with this network (see network_of()); it
  /// keeps its place. std::bad_alloc: nothing has changed.
  void join(place_claim& claim, std::string_view network, std::string_view tenant = {});
  void leave(place_claim& claim) noexcept;
  void set_place(place_claim& claim, bool holds) noexcept;
  /// What join() would count with, as far as anybody is in it.
  [[nodiscard]] place_claim find(std::string_view network, std::string_view tenant = {}) const;

  /// Whether there is a place for one more in the share of `wanted`. `now`: what it has before, if anything.
  [[nodiscard]] bool has_room(const place_claim& wanted, const place_claim& now = {}) const noexcept;
  /// Whether one more of that share were beyond few where no more of these may be: it can have only the place
  /// of its own share or of another that has more than few.
  [[nodiscard]] bool is_beyond_few(const place_claim& wanted, const place_claim& now = {}) const noexcept;

  [[nodiscard]] std::size_t held() const noexcept { return held_; }
  [[nodiscard]] std::size_t few() const noexcept { return few_places(places_); }

 private:
  using shares = std::unordered_map<std::string_view, std::unique_ptr<place_share>>;
  static place_share* add(shares& to, std::string name);
  static void drop_unused(shares& from, const place_share* one) noexcept;
  void count_member(const place_claim& claim, bool more) noexcept;
  void count_place(const place_claim& claim, bool more) noexcept;

  std::size_t places_;
  std::size_t held_ = 0;
  std::size_t beyond_few_ = 0;  ///< of each whole share the places that are more than few, together
  shares wholes_;
  shares parts_;  ///< of tenants
};

}  // namespace orcd::net
