// A client of the test of kills: it asks, at its own pace and with buffers of its own size, and compares
// every byte of the answers with what it expects. It does not know that engines die.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>

#include "net/failover/file_descriptor.hpp"
#include "test/kills/exchange.hpp"

namespace orcd::kills {

struct verdicts {
  std::uint64_t connections = 0;
  std::uint64_t answers = 0;  ///< whole and right
  std::uint64_t bytes = 0;    ///< of answers
  std::uint64_t wrong = 0;    ///< connections with a byte that was not expected
  std::uint64_t lost = 0;     ///< that ended, or stood still, before the answer did
  std::uint64_t refused = 0;  ///< connects
};

class client {
 public:
  using clock = std::chrono::steady_clock;

  client(std::uint16_t port, std::uint32_t number, std::uint32_t seed, verdicts& told);

  /// Connects again where it is not connected, until told not to.
  void connect(clock::time_point now);
  [[nodiscard]] bool is_connected() const noexcept { return static_cast<bool>(socket_); }
  [[nodiscard]] int socket() const noexcept { return socket_.get(); }
  /// poll()'s events that it waits for now; a slow reader waits for none at times.
  [[nodiscard]] short wanted(clock::time_point now) const noexcept;
  void move(short ready, clock::time_point now);
  /// Counts it as lost where nothing has come for too long.
  void check_progress(clock::time_point now);
  /// No more questions than those that are under way.
  void finish();

 private:
  struct expected {
    std::uint64_t digest = 0;
    std::uint32_t tokens = 0;
  };

  void ask();
  void send_some(clock::time_point now);
  void receive_some(clock::time_point now);
  [[nodiscard]] bool is_right(std::string_view bytes);
  void lose(const char* why);
  void leave() noexcept;
  std::uint32_t draw(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

  const std::uint16_t port_;
  const std::uint32_t number_;
  std::mt19937 random_;
  verdicts& told_;
  net::file_descriptor socket_;
  std::uint64_t questions_ = 0;  ///< asked ever
  std::uint32_t left_ = 0;       ///< questions of this connection
  bool finishing_ = false;
  bool slow_ = false;
  bool closes_ = false;        ///< the last question asked the engine to close
  bool leaves_early_ = false;  ///< in the middle of the last answer
  std::string out_;
  std::size_t sent_ = 0;
  std::deque<expected> expected_;
  std::uint32_t token_ = 0;  ///< of the first expected answer
  std::string text_;         ///< of this token; what is left of it
  clock::time_point next_read_{}, progress_{};
};

}  // namespace orcd::kills
