// Where clients find the worker, and how whoever wanted to be told is told that it serves there. io thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <functional>
#include <string>

#include "app/options/options.hpp"
#include "app/service/service_manager.hpp"
#include "engine/base/narration.hpp"
#include "net/server/server.hpp"

namespace orcd::app {

class public_address {
 public:
  public_address(boost::asio::io_context& io, const options& opts, service_manager& service,
                 engine::narrator& narrator)
      : io_(io), opts_(opts), service_(service), narrator_(narrator) {}

  /// Has `server` reserve the address; it does not listen yet. Errors: those of bind() and take_listener().
  [[nodiscard]] engine::result<void> reserve(net::server& server);
  /// The port that clients find, where another process listens there.
  void use(std::uint16_t port);

  /// POSTs to --callback-url that a worker with so much memory serves the model, and calls `done` when that
  /// is acknowledged, at once where there is no URL. The pool manager checks that the URI answers, so that
  /// the server listens before; jobs are refused until it has agreed (WORK-3011, WORK-3014).
  void announce(const std::string& model, std::uint64_t vram_bytes,
                std::function<void(const engine::result<void>&)> done);

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::string& uri() const noexcept { return uri_; }

 private:
  boost::asio::io_context& io_;
  const options& opts_;
  service_manager& service_;
  engine::narrator& narrator_;
  std::uint16_t port_ = 0;
  std::string uri_;
};

}  // namespace orcd::app
