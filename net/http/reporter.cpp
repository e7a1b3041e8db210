#include "net/http/reporter.hpp"

#include <exception>
#include <utility>

namespace orcd::net {

void reporter::start(reporter_duties duties) {
  duties_ = std::move(duties);
  thread_ = std::jthread([this] { run(); });
}

/// Whatever is thrown for lack of memory, the worker goes on; so does this, a little later.
void reporter::run() noexcept {
  while (!duties_.over()) {
    try {
      asio::co_spawn(io_, duties_.work(), [](const std::exception_ptr& failed) {
        if (failed) std::rethrow_exception(failed);
      });
      io_.run();
      io_.restart();
    } catch (const std::exception&) {
      duties_.failed();
      if (!leaving_) std::this_thread::sleep_for(duties_.pause);
    }
  }
  try {
    io_.restart();
    duties_.last();
  } catch (const std::exception&) {
    duties_.failed();
  }
}

void reporter::leave() noexcept {
  if (leaving_.exchange(true)) return;
  if (wake(left_)) return;
  stopped_short_ = true;
  io_.stop();
}

void reporter::end() noexcept {
  leave();
  if (thread_.joinable()) thread_.join();
}

bool reporter::wake(asio::steady_timer& timer) noexcept {
  try {
    asio::post(io_, [&timer] { timer.cancel(); });
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

asio::awaitable<void> reporter::until_left() {
  if (leaving_) co_return;
  const auto [ec] = co_await left_.async_wait(as_tuple_token);
  static_cast<void>(ec);
}

}  // namespace orcd::net
