// What the system port answers, as a function of an engine's state: an orchestrator keeps a standby alive by
// /live and /health, and /ready tells which engine serves. Pure. Source: the probe table of the failover
// plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/worker_state.hpp"
#include "net/failover/engine_cycle.hpp"
#include "net/http/respond.hpp"

namespace orcd::net {

struct probe_facts {
  bool alone = false;  ///< the worker is none of several engines; `state` is as if it were
  failover_state state = failover_state::init;
  engine::lifecycle lifecycle = engine::lifecycle::starting;
  engine::health_cause cause = engine::health_cause::none;
  bool moving = true;           ///< the io thread and the GPU thread have made progress lately
  bool starts_healthy = false;  ///< /health of an engine that still loads: 200 instead of 503
  bool endpoint_only = false;   ///< /health follows the serving endpoint alone
  std::uint32_t engine = 0;
  std::string owner{};                     ///< of the lock
  std::optional<bool> holder_connected{};  ///< nullopt: it needs none
  std::uint64_t resumed = 0;               ///< requests of other engines that it went on with
  std::uint64_t epoch = 0;                 ///< of its entry where others find it; 0: it has none
};

/// Whether the paths /live, /health and /ready answer 200.
[[nodiscard]] bool is_live(const probe_facts& facts) noexcept;
[[nodiscard]] bool is_healthy(const probe_facts& facts) noexcept;
[[nodiscard]] bool is_ready(const probe_facts& facts) noexcept;

/// What an operator may ask for by a POST to the system port.
enum class system_order {
  sleep,     ///< /engine/sleep: another engine is to serve
  wake_up,   ///< /engine/wake_up: whether this one does
  shutdown,  ///< /shutdown
};
[[nodiscard]] std::string_view path_of(system_order order) noexcept;
/// For messages: "have another engine serve".
[[nodiscard]] std::string_view what_of(system_order order) noexcept;
/// The order that a request is; answer_probe() is not asked about such a one.
[[nodiscard]] std::optional<system_order> find_order(std::string_view method,
                                                     std::string_view target) noexcept;
/// The answer to sleep and wake_up: 200, or 409 with the reason why it was not done.
[[nodiscard]] reply answer_order(const probe_facts& facts, const engine::result<void>& done);
/// Nobody but the lock wakes an engine. Error: not_ready, where it does not serve.
[[nodiscard]] engine::result<void> answer_wake(const probe_facts& facts);

/// The answer to a request, 404 and 405 among them; nullopt for /metrics, which needs more than these facts.
[[nodiscard]] std::optional<reply> answer_probe(std::string_view method, std::string_view target,
                                                const probe_facts& facts);

}  // namespace orcd::net
