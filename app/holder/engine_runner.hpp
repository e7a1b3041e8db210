// Runs engines as processes: starts them, starts those again that end, and ends them all. It does not end
// them when it ends itself without being asked to: engines serve without a holder. On the thread of one
// io_context.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/holder/holder_options.hpp"
#include "app/holder/restart_policy.hpp"
#include "app/process/exit_code.hpp"
#include "engine/base/narration.hpp"

namespace orcd::app {

class engine_runner {
 public:
  struct calls {
    /// The pidfd of an engine that is connected to the holder, whoever started it; -1 where it is not.
    std::function<int(std::uint32_t)> process_of;
    /// The engine that serves.
    std::function<std::optional<std::uint32_t>()> active;
    /// All engines have ended, after stop() or because one cannot ever start: usage then.
    std::function<void(exit_code)> ended;
  };
  engine_runner(boost::asio::io_context& io, const holder_options& opts, engine::narrator& narrator,
                calls told);
  ~engine_runner();
  engine_runner(const engine_runner&) = delete;
  engine_runner& operator=(const engine_runner&) = delete;

  /// Starts the engines that are not connected `after` some time: those that a holder before has started
  /// connect by themselves.
  void start(std::chrono::milliseconds after);
  /// Has all engines end: those that do not serve first, so that the one that does hands over to none of
  /// them and finishes what runs. Asked again, it asks all of them at once, and they end sooner.
  void stop();

 private:
  using clock = std::chrono::steady_clock;
  struct engine {
    explicit engine(boost::asio::io_context& io) : process(io), timer(io) {}
    std::uint32_t number = 0;
    pid_t pid = -1;                                 ///< -1: not running, or nobody's child here
    boost::asio::posix::stream_descriptor process;  ///< a pidfd
    boost::asio::steady_timer timer;
    clock::time_point started{};
    restart_policy policy{};
  };

  void start_later(engine& one, std::chrono::milliseconds after);
  void start_now(engine& one);
  void on_end(engine& one);
  void end_all();
  void await_end();
  [[nodiscard]] int process_of(engine& one) const;
  void ask_to_end(engine& one) const;
  void kill_late();
  [[nodiscard]] std::vector<std::string> arguments_of(std::uint32_t number) const;

  const holder_options& opts_;
  orcd::engine::narrator& narrator_;
  const calls told_;
  std::deque<engine> engines_;
  boost::asio::steady_timer end_timer_;
  bool ending_ = false;
  std::optional<std::uint32_t> last_{};  ///< the engine that is asked to end when the others have
  bool last_is_asked_ = false;
  clock::time_point kill_at_ = clock::time_point::max();
  exit_code code_ = exit_code::ok;
};

}  // namespace orcd::app
