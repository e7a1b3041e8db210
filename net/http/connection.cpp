#include "net/http/connection.hpp"

#include <netinet/tcp.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace orcd::net {
namespace {

using std::chrono::steady_clock;

// Below 64 KiB: Beast 1.81 throws from within its read operation when a trailer field is longer than that,
// and a trailer is at most what the buffer holds.
constexpr std::size_t input_bytes_max = 48 * 1024;
constexpr int send_buffer_bytes = 128 * 1024;  // bounds what the kernel holds for a client that does not read

/// Closes one connection in this many at once when there is no room, so that a flood does not make each
/// accept look at all connections.
constexpr std::size_t evicted_share = 64;
/// For this long after a search that left nothing to close, evict() does not search again.
constexpr std::chrono::milliseconds look_again_after{10};

asio::ip::address peer_of(const tcp::socket& socket) {
  error_code gone;
  const auto endpoint = socket.remote_endpoint(gone);
  return gone ? asio::ip::address() : unmapped(endpoint.address());
}

}  // namespace

engine::error too_many_connections(std::size_t limit, const char* whose) {
  return {engine::errc::not_ready,
          std::string("too many connections") + whose + ": the limit is " + std::to_string(limit)};
}

asio::ip::address unmapped(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
}

std::string network_of(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  auto bytes = address.to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return asio::ip::address_v6(bytes).to_string() + "/64";
}

std::size_t readable_bytes(const tcp::socket& socket) {
  error_code gone;
  const std::size_t bytes = socket.available(gone);
  return gone ? 0 : bytes;
}

connection::connection(tcp::socket socket, const connection_limits& limits, connection_tier given,
                       journalled kept)
    : stream(std::move(socket)),
      input(input_bytes_max),
      record(std::move(kept.record)),
      recovered(std::move(kept.recovered)),
      refusal(std::move(kept.refusal)),
      maker(kept.maker),
      fingerprint(std::move(kept.fingerprint)),
      alone(kept.alone),
      since(steady_clock::now()),
      tier(given),
      peer(peer_of(stream.socket())),
      peer_network(network_of(peer)) {
  // Socket options improve things but are not needed: where one is refused the timers still hold.
  error_code ignored;
  stream.socket().set_option(tcp::no_delay(true), ignored);
  stream.socket().set_option(asio::socket_base::send_buffer_size(send_buffer_bytes), ignored);
  // A host that vanished without closing is noticed when data stays unacknowledged for this long.
  using user_timeout = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_USER_TIMEOUT>;
  const auto ms = std::chrono::milliseconds(limits.write_timeout).count();
  stream.socket().set_option(user_timeout(static_cast<int>(ms)), ignored);
}

void connection::enter(connection_phase next) {
  phase = next;
  since = begun = steady_clock::now();
  body_bytes = 0;
  if (phase == connection_phase::body) since += eviction_grace;
}

void connection::close() {
  error_code ignored;
  if (record && stream.socket().is_open()) stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream.close();
}

void connection::note_body_bytes(std::size_t bytes) {
  body_bytes += bytes;
  since = next_part_due(since, steady_clock::now(), bytes);
}

void connection_set::add(connection& c) {
  // Each may find no memory: a connection that is not counted must not be listed either, since nobody removes
  // it.
  std::size_t& of_network = by_network_[c.peer_network];
  shares_.join(c.claim, c.peer_network);
  try {
    all_.insert(&c);
  } catch (...) {
    shares_.leave(c.claim);
    throw;
  }
  ++of_network;
  set_tier(c, std::exchange(c.tier, connection_tier::none));
}

std::size_t connection_set::recovering() const noexcept {
  return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), [](const connection* c) {
    const bool answers = c->phase != connection_phase::unread && c->phase != connection_phase::closing;
    return answers && c->recovered && c->recovered->request_bytes > 0 && !c->entered;
  }));
}

void connection_set::remove(connection& c) {
  if (all_.erase(&c) == 0) return;
  set_tier(c, connection_tier::none);
  shares_.leave(c.claim);
  const auto found = by_network_.find(c.peer_network);
  if (--found->second == 0) by_network_.erase(found);
}

connection_tier connection_set::tier_for(const asio::ip::address& from) {
  const std::string network = network_of(unmapped(from));
  const auto found = by_network_.find(network);
  const auto of_address = found == by_network_.end() ? 0 : found->second;
  const auto most = limits_.connections_per_address;
  if ((most == 0 || of_address < most) && has_regular(shares_.find(network), nullptr)) {
    return connection_tier::regular;
  }
  const bool has_reserved = reserved_.size() < limits_.connections_reserved || evict_reserved();
  return has_reserved ? connection_tier::reserved : connection_tier::none;
}

bool connection_set::exceeds_address_limit(const connection& c) const {
  const auto found = by_network_.find(c.peer_network);
  return limits_.connections_per_address > 0 && found != by_network_.end() &&
         found->second > limits_.connections_per_address;
}

bool connection_set::promote(connection& c, std::string_view tenant) {
  if (c.tier == connection_tier::none) return true;  // it was closed, which its session will see
  if (c.tier == connection_tier::reserved && exceeds_address_limit(c)) return false;
  // What needs no key is asked by the tenant of before.
  if (c.tier == connection_tier::regular && tenant.empty()) return true;
  const place_claim wanted = shares_.find(c.peer_network, tenant);
  if (!has_regular(wanted, &c)) return false;
  shares_.join(c.claim, c.peer_network, tenant);
  set_tier(c, connection_tier::regular);
  return true;
}

engine::error connection_set::refusal_of(const connection& c, std::string_view tenant) const {
  if (exceeds_address_limit(c)) {
    return too_many_connections(limits_.connections_per_address, " from this address");
  }
  const std::size_t most = limits_.connections_max;
  if (!shares_.is_beyond_few(shares_.find(c.peer_network, tenant), c.claim))
    return too_many_connections(most);
  return {engine::errc::not_ready,
          std::string("too many connections ") + (tenant.empty() ? "from this address" : "with this key") +
              ": of " + std::to_string(most) + " places " + std::to_string(most - most_of_a_share(most)) +
              " are kept for addresses and keys that have up to " + std::to_string(shares_.few())};
}

/// Whether there is a regular place, if need be another's. `whose`: the connection that is to have it, whose
/// head is here; null for one that has just come.
bool connection_set::has_regular(const place_claim& wanted, const connection* whose) {
  const place_claim now = whose == nullptr ? place_claim() : whose->claim;
  if (shares_.has_room(wanted, now)) return true;
  return evict({.claim = wanted,
                .has_head = whose != nullptr,
                .beyond_few = shares_.is_beyond_few(wanted, now),
                .few = shares_.few()},
               whose);
}

void connection_set::set_tier(connection& c, connection_tier next) {
  const connection_tier before = std::exchange(c.tier, next);
  if (before == connection_tier::reserved) std::erase(reserved_, &c);
  if (next == connection_tier::reserved) reserved_.push_back(&c);
  shares_.set_place(c.claim, next == connection_tier::regular);
}

/// Closes up to `wanted` of these connections, as choose_evicted() says.
std::size_t connection_set::close_some(const std::vector<connection*>& them, const eviction_asker& asker,
                                       std::size_t wanted) {
  const auto now = steady_clock::now();
  const auto ms_since = [now](engine::steady_time then) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - then);
  };
  std::vector<eviction_candidate> seen;
  seen.reserve(them.size());
  for (const connection* c : them) {
    seen.push_back({c->phase, ms_since(c->since), body_pace(c->body_bytes, ms_since(c->begun)), c->claim});
  }
  const auto chosen = choose_evicted(seen, wanted, asker);
  for (const std::size_t index : chosen) {
    // Its coroutine frame, and it in the set, stay until its session has noticed.
    set_tier(*them[index], connection_tier::none);
    them[index]->close();
  }
  return chosen.size();
}

/// Whether a search that went as far as this one would was over a moment ago.
bool connection_set::is_spent(const eviction_asker& asker) const {
  return steady_clock::now() - spent_.at < look_again_after && spent_.whole <= places_of(asker.claim.whole) &&
         spent_.part <= places_of(asker.claim.part) && (spent_.has_head || !asker.has_head) &&
         (!spent_.beyond_few || asker.beyond_few);
}

/// Closes connections to make room for the asker; false when there are none to close.
bool connection_set::evict(const eviction_asker& asker, const connection* spared) {
  if (is_spent(asker)) return false;
  const std::size_t wanted = 1 + shares_.held() / evicted_share;
  std::vector<connection*> them;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(them),
               [spared](const connection* c) { return c->tier == connection_tier::regular && c != spared; });
  const std::size_t closed = close_some(them, asker, wanted);
  if (closed < wanted) {
    spent_ = {steady_clock::now(), places_of(asker.claim.whole), places_of(asker.claim.part), asker.has_head,
              asker.beyond_few};
  }
  return closed > 0;
}

/// Closes a reserved connection that has sent no whole head: probes send theirs at once.
bool connection_set::evict_reserved() {
  const auto them = reserved_;  // it changes while some are closed
  return close_some(them, {.has_head = true, .few = shares_.few()}, 1) > 0;
}

void connection_set::mark_unread(connection& c) {
  c.enter(connection_phase::unread);
  if (all_.size() <= limits_.unread_answers_max) return;
  const auto is_unread = [](const connection* one) {
    return one->phase == connection_phase::unread && one->tier != connection_tier::none;
  };
  const auto count = static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), is_unread));
  if (count <= limits_.unread_answers_max) return;
  std::vector<connection*> unread;
  std::copy_if(all_.begin(), all_.end(), std::back_inserter(unread), is_unread);
  close_some(unread, {.few = shares_.few()}, 1);
}

void connection_set::close_idle() {
  for (connection* c : all_) {
    const std::size_t replayed = c->recovered ? c->recovered->input.size() - c->replayed : 0;
    if (is_idle(c->phase, c->input.size() + replayed, readable_bytes(c->stream.socket()))) c->close();
  }
}

void connection_set::close_all() {
  for (connection* c : all_) c->close();
}

std::size_t connection_set::unkept() const noexcept {
  const auto is_unkept = [](const connection* c) { return c->record && c->record->abandoned(); };
  return static_cast<std::size_t>(std::count_if(all_.begin(), all_.end(), is_unkept));
}

void connection_set::leave_all() noexcept {
  error_code ignored;
  for (connection* c : all_) c->stream.socket().close(ignored);
}

}  // namespace orcd::net
