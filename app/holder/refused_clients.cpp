#include "app/holder/refused_clients.hpp"

#include <sys/socket.h>

#include <array>
#include <utility>

#include "net/http/http_request.hpp"
#include "net/http/respond.hpp"

namespace orcd::app {
namespace {

std::string make_answer(std::uint32_t sockets_max) {
  net::http_request nothing;
  nothing.request_id = "refused";
  const engine::error why(engine::errc::not_ready,
                          "too many connections: the limit is " + std::to_string(sockets_max));
  net::reply refusal = net::make_error_reply(why);
  refusal.close = true;
  return net::render_reply(refusal, nothing, false);
}

}  // namespace

refused_clients::refused_clients(boost::asio::io_context& io, std::uint32_t sockets_max)
    : answer_(make_answer(sockets_max)), timer_(io) {}

void refused_clients::refuse(net::file_descriptor client) {
  ++count_;
  // Bytes that do not fit into an empty socket's buffer are not sent.
  static_cast<void>(::send(client.get(), answer_.data(), answer_.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  ::shutdown(client.get(), SHUT_WR);
  if (kept_.size() >= kept_max) close_oldest();
  kept_.push_back({std::move(client), clock::now() + kept_for});
  if (kept_.size() == 1) await();
}

/// What has come of the request is read, so that the close is an orderly one.
void refused_clients::close_oldest() {
  std::array<char, 16 * 1024> dropped;
  static_cast<void>(::recv(kept_.front().socket.get(), dropped.data(), dropped.size(), MSG_DONTWAIT));
  kept_.pop_front();
}

void refused_clients::await() {
  timer_.expires_at(kept_.front().until);
  timer_.async_wait([this](const boost::system::error_code& failed) {
    if (failed) return;
    while (!kept_.empty() && kept_.front().until <= clock::now()) close_oldest();
    if (!kept_.empty()) await();
  });
}

}  // namespace orcd::app
