#include "net/http/read_input.hpp"

#include <algorithm>
#include <span>

namespace orcd::net {
namespace {

std::size_t replay(connection& c, std::size_t most) {
  const std::string& left = c.recovered->input;
  const std::size_t n = std::min(most, left.size() - c.replayed);
  asio::buffer_copy(c.input.prepare(n), asio::buffer(left.data() + c.replayed, n));
  c.input.commit(n);
  c.replayed += n;
  return n;
}

/// Where the bytes are received: in the journal, if it has room, else in the buffer itself.
std::span<std::byte> space_for(connection& c, std::size_t most) {
  std::span<std::byte> space;
  if (c.record) space = c.record->input_space();
  return space.first(std::min(most, space.size()));
}

void take(connection& c, std::span<const std::byte> received) {
  asio::buffer_copy(c.input.prepare(received.size()), asio::buffer(received.data(), received.size()));
  c.record->input_received(received.size());
}

}  // namespace

bool has_replay(const connection& c) noexcept {
  return c.recovered && c.replayed < c.recovered->input.size();
}

asio::awaitable<input_read> read_input(connection& c, std::size_t most) {
  input_read out;
  if (has_replay(c)) {
    out.bytes = replay(c, most);
    co_return out;
  }
  const auto space = space_for(c, most);
  const bool kept = !space.empty();
  const auto buffer = kept ? asio::buffer(space.data(), space.size()) : asio::buffer(c.input.prepare(most));
  const auto [ec, n] = co_await c.stream.socket().async_read_some(buffer, as_tuple_token);
  if (kept && n > 0) take(c, space.first(n));
  if (!kept && n > 0 && c.record) c.record->input_received(n);
  if (!ec) c.input.commit(n);
  out.failed = ec;
  out.bytes = n;
  co_return out;
}

}  // namespace orcd::net
