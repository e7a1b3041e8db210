#include "net/http/connection.hpp"

#include <netinet/tcp.h>

#include <algorithm>
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
/// For this long after a search that found nothing, evict() does not search again.
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
  since = steady_clock::now();
  if (phase == connection_phase::body) since += eviction_grace;
}

void connection::close() {
  error_code ignored;
  if (record && stream.socket().is_open()) stream.socket().shutdown(tcp::socket::shutdown_both, ignored);
  stream.close();
}

void connection::note_body_bytes(std::size_t bytes) {
  since = next_part_due(since, steady_clock::now(), bytes);
}

void connection_set::add(connection& c) {
  // Both may find no memory: a connection that is not counted must not be listed either, since nobody
  // removes it.
  std::size_t& of_network = by_network_[c.peer_network];
  all_.insert(&c);
  ++of_network;
  set_tier(c, std::exchange(c.tier, connection_tier::none));
}

void connection_set::remove(connection& c) {
  if (all_.erase(&c) == 0) return;
  set_tier(c, connection_tier::none);
  const auto found = by_network_.find(c.peer_network);
  if (--found->second == 0) by_network_.erase(found);
}

connection_tier connection_set::tier_for(const asio::ip::address& from) {
  const auto found = by_network_.find(network_of(unmapped(from)));
  const auto of_address = found == by_network_.end() ? 0 : found->second;
  const auto most = limits_.connections_per_address;
  if ((most == 0 || of_address < most) && has_regular()) return connection_tier::regular;
  return reserved_ < limits_.connections_reserved || evict_reserved() ? connection_tier::reserved
                                                                      : connection_tier::none;
}

bool connection_set::exceeds_address_limit(const connection& c) const {
  const auto found = by_network_.find(c.peer_network);
  return limits_.connections_per_address > 0 && found != by_network_.end() &&
         found->second > limits_.connections_per_address;
}

bool connection_set::promote(connection& c) {
  if (c.tier != connection_tier::reserved) return true;
  if (exceeds_address_limit(c)) return false;
  if (!has_regular(std::chrono::milliseconds(0))) return false;
  set_tier(c, connection_tier::regular);
  return true;
}

void connection_set::set_tier(connection& c, connection_tier next) {
  const auto count = [this](connection_tier of, std::size_t change) {
    if (of == connection_tier::regular) regular_ += change;
    if (of == connection_tier::reserved) reserved_ += change;
  };
  count(std::exchange(c.tier, next), static_cast<std::size_t>(-1));
  count(next, 1);
}

/// Closes up to `wanted` of the connections for which `which` holds, as choose_evicted() says.
std::size_t connection_set::close_some(const std::function<bool(const connection&)>& which,
                                       std::chrono::milliseconds head_grace, std::size_t wanted) {
  const auto now = steady_clock::now();
  std::vector<connection*> them;
  std::vector<eviction_candidate> seen;
  for (connection* c : all_) {
    if (c->tier == connection_tier::none || !which(*c)) continue;
    const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - c->since);
    them.push_back(c);
    seen.push_back({c->phase, age});
  }
  const auto chosen = choose_evicted(seen, wanted, head_grace);
  for (const std::size_t index : chosen) {
    // Its coroutine frame, and it in the set, stay until its session has noticed.
    set_tier(*them[index], connection_tier::none);
    them[index]->close();
  }
  return chosen.size();
}

bool connection_set::evict(std::chrono::milliseconds head_grace) {
  const auto now = steady_clock::now();
  if (now - nothing_found_at_ < look_again_after && head_grace >= nothing_found_with_) return false;
  const std::size_t closed =
      close_some([](const connection& c) { return c.tier == connection_tier::regular; }, head_grace,
                 1 + regular_ / evicted_share);
  if (closed == 0) {
    nothing_found_at_ = now;
    nothing_found_with_ = head_grace;
  }
  return closed > 0;
}

/// Closes a reserved connection that has sent no whole head: probes send theirs at once.
bool connection_set::evict_reserved() {
  return close_some([](const connection& c) { return c.tier == connection_tier::reserved; },
                    std::chrono::milliseconds(0), 1) > 0;
}

void connection_set::mark_unread(connection& c) {
  c.enter(connection_phase::unread);
  if (all_.size() <= limits_.unread_answers_max) return;
  const auto is_unread = [](const connection& one) { return one.phase == connection_phase::unread; };
  const auto unread = static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [&](const connection* one) { return is_unread(*one); }));
  if (unread > limits_.unread_answers_max) close_some(is_unread, eviction_grace, 1);
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
