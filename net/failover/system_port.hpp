// A port for orchestrators and operators, apart from the one that clients use: it answers from the first
// millisecond, also while the model loads and while another engine serves. A thread of its own, which nothing
// else can block, answers there and ends a wake that takes too long.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/error.hpp"
#include "net/failover/engine_cycle.hpp"
#include "net/failover/probe_answers.hpp"
#include "net/http/current_keys.hpp"
#include "net/http/operator_gate.hpp"
#include "net/http/request_gate.hpp"

namespace orcd::net {

struct system_config {
  std::string address;
  std::uint16_t port = 0;  ///< 0: no port; the thread watches the wake all the same
  /// Where another process has it, or it is `serving_port`: so many ports behind it are tried.
  std::uint16_t others = 0;
  std::uint16_t serving_port = 0;
  std::chrono::milliseconds waking_timeout{10'000};
  host_rules hosts{};  ///< the names that a Host field may hold
};

/// Connections that the port has at a time: with one more the oldest is closed, so that nobody can keep a
/// probe from being answered.
inline constexpr std::size_t system_connections_max = 32;

/// What the port is told; all of it is called on its own thread and must not wait.
struct system_context {
  const failover_status* status = nullptr;  ///< null: the worker is alone
  current_keys keys{};                      ///< orders take an operator's where there are any
  std::function<probe_facts()> facts;
  /// Has the text of the worker's own /metrics made and `done` called with it, on any thread. It may never
  /// be: then the scrape has the engine's own families alone.
  std::function<void(std::function<void(std::string)> done)> scrape;
  /// How long the engine has had the lock; zero without it. Not asked of a worker that is alone.
  std::function<std::chrono::nanoseconds()> lock_held_for;
  /// Has another engine serve, and `done` called when this one stands by again, or with the reason why not;
  /// on any thread.
  std::function<void(std::function<void(engine::result<void>)> done)> hand_over;
  /// Drains, as POST /shutdown at the clients' port does.
  std::function<void()> shut_down;
  /// The engine has had the lock for longer than it may take to serve. Called once.
  std::function<void()> on_waking_timeout;
  std::function<void(const order_note&)> on_order;  ///< for the log
};

class system_port {
 public:
  /// Listens and starts the thread. Errors: worker_start_failed, naming address, port and reason.
  [[nodiscard]] static engine::result<std::unique_ptr<system_port>> start(system_config config,
                                                                          system_context context);
  ~system_port();
  /// The port that it listens on; 0: none.
  [[nodiscard]] std::uint16_t port() const noexcept;
  system_port(const system_port&) = delete;
  system_port& operator=(const system_port&) = delete;

 private:
  struct impl;
  explicit system_port(std::unique_ptr<impl> parts);
  std::unique_ptr<impl> impl_;
};

}  // namespace orcd::net
