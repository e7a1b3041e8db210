#include "net/http/place_shares.hpp"

#include <algorithm>
#include <utility>

namespace orcd::net {
namespace {

// No tenant's name and no address has a space in it.
std::string name_of_whole(std::string_view network, std::string_view tenant) {
  return tenant.empty() ? std::string(network) : std::string("key ").append(tenant);
}

std::string name_of_part(std::string_view network, std::string_view tenant) {
  return std::string(tenant).append(" ").append(network);
}

bool has_parts(const place_claim& claim) noexcept {
  return claim.part != claim.whole;
}

std::size_t change(std::size_t count, bool more) noexcept {
  return more ? count + 1 : count - 1;
}

}  // namespace

std::size_t few_places(std::size_t places) noexcept {
  return std::max<std::size_t>(1, places / few_of_places);
}

std::size_t most_of_a_share(std::size_t places) noexcept {
  return places - places / kept_of_places;
}

void place_shares::set_places(std::size_t places) noexcept {
  places_ = places;
  beyond_few_ = 0;
  for (const auto& [name, share] : wholes_) beyond_few_ += share->places - std::min(share->places, few());
}

place_share* place_shares::add(shares& to, std::string name) {
  if (const auto found = to.find(name); found != to.end()) return found->second.get();
  auto made = std::make_unique<place_share>();
  made->name = std::move(name);
  const std::string_view key = made->name;
  return to.emplace(key, std::move(made)).first->second.get();
}

void place_shares::drop_unused(shares& from, const place_share* one) noexcept {
  if (one->members == 0) from.erase(from.find(one->name));
}

void place_shares::join(place_claim& claim, std::string_view network, std::string_view tenant) {
  place_claim next{.whole = add(wholes_, name_of_whole(network, tenant)), .holds = claim.holds};
  try {
    next.part = tenant.empty() ? next.whole : add(parts_, name_of_part(network, tenant));
  } catch (...) {
    drop_unused(wholes_, next.whole);
    throw;
  }
  // First in, then out: what is left by nobody in between is not dropped.
  count_member(next, true);
  if (next.holds) count_place(next, true);
  leave(claim);
  claim = next;
}

void place_shares::leave(place_claim& claim) noexcept {
  if (claim.whole == nullptr) return;
  set_place(claim, false);
  count_member(claim, false);
  if (has_parts(claim)) drop_unused(parts_, claim.part);
  drop_unused(wholes_, claim.whole);
  claim = {};
}

void place_shares::set_place(place_claim& claim, bool holds) noexcept {
  if (std::exchange(claim.holds, holds) != holds) count_place(claim, holds);
}

place_claim place_shares::find(std::string_view network, std::string_view tenant) const {
  const auto in = [](const shares& all, const std::string& name) {
    const auto found = all.find(name);
    return found == all.end() ? nullptr : found->second.get();
  };
  place_claim out{.whole = in(wholes_, name_of_whole(network, tenant))};
  out.part = tenant.empty() ? out.whole : in(parts_, name_of_part(network, tenant));
  return out;
}

bool place_shares::has_room(const place_claim& wanted, const place_claim& now) const noexcept {
  return (now.holds || held_ < places_) && !is_beyond_few(wanted, now);
}

bool place_shares::is_beyond_few(const place_claim& wanted, const place_claim& now) const noexcept {
  if (now.holds && now.whole == wanted.whole) return false;
  if (places_of(wanted.whole) < few()) return false;
  const std::size_t given_up = now.holds && places_of(now.whole) > few() ? 1 : 0;
  const std::size_t most = most_of_a_share(places_);
  return beyond_few_ - given_up >= most - std::min(most, few());
}

void place_shares::count_member(const place_claim& claim, bool more) noexcept {
  claim.whole->members = change(claim.whole->members, more);
  if (has_parts(claim)) claim.part->members = change(claim.part->members, more);
}

void place_shares::count_place(const place_claim& claim, bool more) noexcept {
  std::size_t& places = claim.whole->places;
  if ((more ? places + 1 : places) > few()) beyond_few_ = change(beyond_few_, more);
  places = change(places, more);
  if (has_parts(claim)) claim.part->places = change(claim.part->places, more);
  held_ = change(held_, more);
}

}  // namespace orcd::net
