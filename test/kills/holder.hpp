// The holder of sockets of the test of kills, which starts the engines, and runs the clients between: one
// thread, one poll().
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "net/failover/file_descriptor.hpp"
#include "test/kills/channel.hpp"
#include "test/kills/client.hpp"
#include "test/kills/points.hpp"

namespace orcd::kills {

/// The first word of an engine's command line, and its descriptors.
inline constexpr std::string_view engine_word = "--engine";
inline constexpr int engine_channel = 3;
inline constexpr int engine_journal = 4;
inline constexpr int engine_board = 5;

/// nullptr where that fails.
[[nodiscard]] board* map_board(int descriptor) noexcept;

class holder {
 public:
  holder(std::uint32_t seed, std::uint32_t clients);
  ~holder();
  holder(const holder&) = delete;
  holder& operator=(const holder&) = delete;

  /// Starts an engine that is to die at that point, once it serves. Returns when the one before is dead;
  /// false, and says why, where that did not die as it should.
  bool start_next(point where, std::mt19937& random);
  /// The last one dies, and all clients get the rest of their answers from an engine that lives.
  bool finish();

  [[nodiscard]] const board& counts() const noexcept { return *board_; }
  [[nodiscard]] const verdicts& seen() const noexcept { return seen_; }
  [[nodiscard]] std::uint32_t kills() const noexcept { return kills_; }
  [[nodiscard]] std::uint32_t kills_at(point where) const { return at_[static_cast<std::size_t>(where)]; }
  /// Answers that were under way at a kill.
  [[nodiscard]] std::uint64_t under_way_least() const noexcept { return least_; }
  [[nodiscard]] std::uint64_t under_way_mean() const noexcept { return kills_ == 0 ? 0 : sum_ / kills_; }
  [[nodiscard]] std::uint32_t kills_that_missed() const noexcept { return missed_; }

 private:
  using clock = client::clock;
  using milliseconds = std::chrono::milliseconds;

  struct engine {
    pid_t process = -1;
    net::file_descriptor channel{};
    point where = point::none;
    milliseconds lives{0};  ///< where it is killed from outside
    bool has_lock = false;
    clock::time_point serves{};  ///< since when
  };
  struct held {
    std::uint64_t serial = 0;
    net::file_descriptor socket{};
  };

  void make_memory();
  void listen();
  void start_engine(point where, std::uint32_t passes, std::uint32_t instructions);
  bool await_death();
  void bury(std::deque<engine>::iterator dead);
  void judge_kills();
  [[nodiscard]] engine* with_lock();
  /// The one that has the connections; it may be dead already.
  [[nodiscard]] engine* serving();
  void step();
  void poll_all(clock::time_point now);
  void hear_engine(engine& from);
  void hand_over(engine& to);
  void accept_one();
  void close(const message& what);
  bool is_dead(engine& one);

  std::uint32_t seed_;
  std::string lock_;
  net::file_descriptor listener_, journal_, board_file_;
  board* board_ = nullptr;
  std::uint16_t port_ = 0;
  std::uint64_t serials_ = 0;
  std::array<held, slots_max> held_{};
  std::deque<engine> engines_;  ///< one has the lock, others wait
  std::vector<std::unique_ptr<client>> clients_;
  verdicts seen_;
  std::uint32_t kills_ = 0;
  std::array<std::uint32_t, points + 1> at_{};
  std::vector<point> unjudged_;  ///< kills of which the next engine has not yet told what they hit
  std::uint64_t least_ = UINT64_MAX, sum_ = 0;
  std::uint32_t missed_ = 0;
};

}  // namespace orcd::kills
