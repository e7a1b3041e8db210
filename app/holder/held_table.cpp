#include "app/holder/held_table.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace orcd::app {
namespace {

/// Whether the kernel has nothing left to do for the connection.
bool is_ended(int socket) noexcept {
  tcp_info facts{};
  socklen_t bytes = sizeof facts;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &facts, &bytes) == 0 && facts.tcpi_state == TCP_CLOSE;
}

}  // namespace

held_table::held_table(std::uint32_t limit)
    : limit_(std::min(limit, net::held_sockets_max)), slots_(net::held_sockets_max) {}

void held_table::take(std::uint32_t slot, std::uint64_t serial, net::file_descriptor socket) {
  slots_[slot].serial = serial;
  slots_[slot].socket = std::move(socket);
  ++count_;
  skip_serials(serial + 1);
}

std::optional<net::held_place> held_table::add(net::file_descriptor socket) {
  if (is_full()) return std::nullopt;
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const held& h) { return h.serial == 0; });
  const net::held_place place{static_cast<std::uint32_t>(free - slots_.begin()), next_serial_};
  take(place.slot, place.serial, std::move(socket));
  return place;
}

bool held_table::put(net::held_place place, net::file_descriptor socket) {
  if (is_full() || place.slot >= slots_.size() || place.serial == 0) return false;
  if (slots_[place.slot].serial != 0) return false;
  take(place.slot, place.serial, std::move(socket));
  return true;
}

void held_table::skip_serials(std::uint64_t next) noexcept {
  next_serial_ = std::max(next_serial_, next);
}

bool held_table::close(net::held_place place) {
  if (place.slot >= slots_.size() || place.serial == 0 || slots_[place.slot].serial != place.serial)
    return false;
  ::shutdown(slots_[place.slot].socket.get(), SHUT_RDWR);
  free(slots_[place.slot]);
  return true;
}

std::uint32_t held_table::close_ended() {
  std::uint32_t closed = 0;
  for (auto& one : slots_) {
    if (one.serial == 0 || !is_ended(one.socket.get())) continue;
    free(one);
    ++closed;
  }
  return closed;
}

void held_table::clear() {
  for (auto& one : slots_) one = {};
  count_ = waiting_ = 0;
}

void held_table::free(held& one) noexcept {
  if (one.waits) --waiting_;
  one = {};
  --count_;
}

void held_table::let_wait(net::held_place place) {
  auto& one = slots_.at(place.slot);
  if (one.serial == 0 || one.serial != place.serial || one.waits) return;
  one.waits = true;
  ++waiting_;
}

std::optional<held_table::entry> held_table::take_waiting() {
  if (waiting_ == 0) return std::nullopt;
  const auto next = std::find_if(slots_.begin(), slots_.end(), [](const held& h) { return h.waits; });
  next->waits = false;
  --waiting_;
  return entry{{static_cast<std::uint32_t>(next - slots_.begin()), next->serial}, next->socket.get()};
}

void held_table::end_waiting() noexcept {
  for (auto& one : slots_) one.waits = false;
  waiting_ = 0;
}

std::vector<held_table::entry> held_table::all() const {
  std::vector<entry> out;
  out.reserve(count_);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const auto& one = slots_[slot];
    if (one.serial != 0) out.push_back({{slot, one.serial}, one.socket.get()});
  }
  return out;
}

}  // namespace orcd::app
