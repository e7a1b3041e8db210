// A deterministic world around the scheduler: an io side (clients, sessions, admission) and a GPU side
// (scheduler, fake accelerator), joined by two queues, with a virtual clock. A seed decides every
// interleaving, so that a failing run can be repeated exactly.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/schedule/admission.hpp"
#include "engine/schedule/scheduler.hpp"
#include "test/support/fake_accelerator.hpp"
#include "test/support/recording_sink.hpp"

namespace orcd::test {

/// How often each thing happened, so that the test can show that it covered them all.
using coverage = std::map<std::string, std::uint64_t>;

class simulation {
 public:
  /// What the layers of the model need.
  enum class layers : std::uint8_t { all_positions, windows_too, states_too };
  simulation(std::uint64_t seed, coverage& seen, layers need = layers::all_positions);
  /// Throws std::runtime_error naming the broken rule.
  void run();

 private:
  struct session {
    engine::job_request request;             ///< prompt included; what was asked for
    std::vector<engine::token_id> expected;  ///< of an undisturbed run, without its end token
    bool expects_stop = false;               ///< the undisturbed run ends at an end token
    std::size_t stop_after = 0;              ///< tokens after which the session sees a stop string; 0 = never
    std::set<engine::cancel_reason> asked;
    recording_sink seen;
    bool left = false;
  };
  struct mailbox_sink;

  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  [[nodiscard]] bool one_in(std::uint64_t n) { return below(n) == 0; }
  void require(bool holds, const std::string& what) const;

  void act();
  void client_acts();
  void request_job();
  [[nodiscard]] std::vector<engine::token_id> make_prompt();
  [[nodiscard]] engine::cache_request make_cache_request();
  void check_cached(const session& s) const;
  void cancel(std::size_t index, engine::cancel_reason reason);
  void shut_down();
  void deliver_to_gpu();
  void deliver_to_io();
  void on_event(std::size_t index, const engine::job_event& event);
  void on_terminal(session& s);
  void check_error(const session& s, engine::errc code);
  void check_bounds() const;
  void settle();

  coverage& coverage_;
  std::mt19937_64 random_;
  engine::steady_time time_{std::chrono::hours(1)};
  layers need_;
  std::uint32_t slots_, max_queue_;
  std::set<engine::errc> injected_;
  fake_accelerator device_;
  engine::admission admission_;
  std::unique_ptr<engine::scheduler> scheduler_;
  std::vector<std::unique_ptr<session>> sessions_;
  std::deque<std::function<void()>> to_gpu_;
  std::deque<std::pair<std::size_t, engine::job_event>> to_io_;
  bool device_lost_ = false, idle_told_ = false;

  [[nodiscard]] fake_options options();
  [[nodiscard]] engine::speculation drafts();
  [[nodiscard]] engine::kv_geometry pages();
  void add_windows(fake_options& to);
  void add_states(fake_options& to);
  void check_windows(const engine::window_counts& counts) const;
};

}  // namespace orcd::test
