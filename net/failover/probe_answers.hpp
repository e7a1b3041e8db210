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
  failover_state state = failover_state::init;
  engine::lifecycle lifecycle = engine::lifecycle::starting;
  engine::health_cause cause = engine::health_cause::none;
  bool moving = true;           ///< the io thread and the GPU thread have made progress lately
  bool starts_healthy = false;  ///< /health of an engine that still loads: 200 instead of 503
  bool endpoint_only = false;   ///< /health follows the serving endpoint alone
  std::uint32_t engine = 0;
  std::string owner{};  ///< of the lock
};

/// Whether the paths /live, /health and /ready answer 200.
[[nodiscard]] bool is_live(const probe_facts& facts) noexcept;
[[nodiscard]] bool is_healthy(const probe_facts& facts) noexcept;
[[nodiscard]] bool is_ready(const probe_facts& facts) noexcept;

/// The answer to a request, 404 and 405 among them; nullopt for /metrics, which needs more than these facts.
[[nodiscard]] std::optional<reply> answer_probe(std::string_view method, std::string_view target,
                                                const probe_facts& facts);

}  // namespace orcd::net
