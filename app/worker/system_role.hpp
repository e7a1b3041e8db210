// The worker's port for orchestrators and operators: what its probes are told, and what it has done for it.
// Its thread reads what it is given at any time, so that it ends before anything of that does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/model/model_setup.hpp"
#include "app/options/options.hpp"
#include "app/worker/failover_role.hpp"
#include "app/worker/watchers.hpp"
#include "engine/worker_state.hpp"
#include "net/failover/system_port.hpp"

namespace orcd::app {

/// The state of a worker that is alone, as one of several would be that has been through the same.
[[nodiscard]] net::failover_state state_alone(engine::lifecycle now) noexcept;

/// How long an engine that has the lock may take to serve. To get weights back that were unmapped has a limit
/// of its own.
[[nodiscard]] std::chrono::milliseconds waking_limit(const failover_options& opts) noexcept;

class system_role {
 public:
  /// On the io thread.
  struct hooks {
    std::function<std::string()> scrape;  ///< the worker's own /metrics
    std::function<void(hand_over_role::told_function)> hand_over;
    std::function<void()> shut_down;
  };
  /// What probes are told of; `engine` null: the worker is alone.
  struct facts {
    const engine::worker_state& state;
    const watchers& threads;
    failover_role* engine = nullptr;
  };

  system_role(boost::asio::io_context& io, const options& opts, facts about, engine::narrator& narrator,
              hooks asked);

  /// Nothing where no port was asked for; engines of several have the thread also without one: it sees to
  /// their waking.
  [[nodiscard]] std::optional<start_failure> start(net::current_keys keys);
  [[nodiscard]] bool is_there() const noexcept { return port_ != nullptr; }
  /// 0: none.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_ ? port_->port() : std::uint16_t{0}; }

 private:
  [[nodiscard]] net::probe_facts gather() const;
  [[nodiscard]] net::system_context make_context(net::current_keys keys);

  boost::asio::io_context& io_;
  const options& opts_;
  const facts about_;
  engine::narrator& narrator_;
  const hooks asked_;
  std::unique_ptr<net::system_port> port_;
};

}  // namespace orcd::app
