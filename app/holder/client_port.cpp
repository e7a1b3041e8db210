#include "app/holder/client_port.hpp"

#include <fcntl.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <cerrno>
#include <utility>

#include "app/holder/shared_files.hpp"

namespace orcd::app {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using engine::error;
using engine::result;

constexpr int accepted_a_turn = 64;
constexpr std::chrono::milliseconds pause_length{20};

}  // namespace

client_port::client_port(asio::io_context& io, std::function<bool()> wanted,
                         std::function<void(net::file_descriptor)> taken)
    : socket_(io), pause_(io), wanted_(std::move(wanted)), taken_(std::move(taken)) {}

result<bool> client_port::listen(const std::string& host, std::uint16_t port) {
  error_code ec;
  const tcp::endpoint endpoint(asio::ip::make_address(host, ec), port);
  tcp::acceptor acceptor(socket_.get_executor());
  if (!ec) acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  // Bytes beside the stream would count as received and never be read: connections inherit this.
  if (!ec) acceptor.set_option(asio::socket_base::out_of_band_inline(true), ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec == asio::error::address_in_use) return false;
  if (ec) {
    return error(start_errc(ec.value()),
                 "cannot listen on " + host + " port " + std::to_string(port) + ": " + ec.message(), "port");
  }
  adopt(net::file_descriptor(acceptor.release()));
  return true;
}

void client_port::adopt(net::file_descriptor listener) {
  close();
  // Of the file, so that engines that have a duplicate do not wait in accept() either.
  ::fcntl(listener.get(), F_SETFL, ::fcntl(listener.get(), F_GETFL) | O_NONBLOCK);
  // Asio does not, and engines are started from here.
  ::fcntl(listener.get(), F_SETFD, FD_CLOEXEC);
  socket_.assign(listener.release());
}

void client_port::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
  pause_.cancel();
}

void client_port::start() {
  if (waiting_ || !socket_.is_open() || !wanted_()) return;
  waiting_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code failed) {
    waiting_ = false;
    if (!failed) accept_some();
  });
}

void client_port::accept_some() {
  for (int i = 0; i < accepted_a_turn && wanted_(); ++i) {
    net::file_descriptor client(::accept4(socket_.native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
    if (client) {
      taken_(std::move(client));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    return pause();
  }
  start();
}

void client_port::pause() {
  pause_.expires_after(pause_length);
  pause_.async_wait([this](error_code failed) {
    if (!failed) start();
  });
}

}  // namespace orcd::app
