#include "app/worker/connection_room.hpp"

#include <algorithm>
#include <string>

#include "net/failover/holder_frames.hpp"
#include "net/failover/system_port.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

/// Descriptors for what is opened besides connections now and then: key and config files, the callback's
/// socket, the socket of a refused client.
constexpr std::uint64_t descriptor_reserve = 32;
/// The connections of one read of the holder's socket are there before the first of them is looked at.
constexpr std::uint64_t held_burst = net::frame_descriptors_max + 8;
/// A holder that is full refuses everybody; an engine that is makes room, and answers probes.
constexpr std::uint32_t held_connections_max = net::held_sockets_max - net::frame_descriptors_max - 32;

/// Raises the soft limit as far as `asked` connections need it; nullopt where the system does not tell it.
std::optional<descriptor_plan> plan_connections(std::uint64_t reserve, std::uint32_t asked) {
  const auto facts = count_descriptors(reserve);
  if (!facts) return std::nullopt;
  const auto plan = plan_descriptors(*facts, asked);
  if (raise_descriptor_limit(plan.soft)) return plan;
  return plan_descriptors({facts->soft, facts->soft, facts->in_use, facts->reserve}, asked);
}

}  // namespace

std::uint64_t spare_descriptors(const descriptor_users& users) noexcept {
  return descriptor_reserve + users.opening + (users.probes ? net::system_connections_max : 0) +
         (users.holder ? held_burst : 0);
}

result<void> connection_room::make(const descriptor_users& users) {
  const auto asked =
      users.holder ? std::min(opts_.max_connections, held_connections_max) : opts_.max_connections;
  const auto found = plan_connections(spare_descriptors(users), asked);
  if (!found) {
    connections_ = asked;
    return {};
  }
  const auto& plan = *found;
  if (!plan.enough) {
    return error{errc::worker_start_failed,
                 "too few file descriptors: the limit is " + std::to_string(plan.soft) +
                     ", the worker itself needs " + std::to_string(plan.own) + " and at least " +
                     std::to_string(std::min(asked, connections_min)) +
                     " connections more; raise it (ulimit -n, LimitNOFILE=)",
                 "max-connections"};
  }
  if (plan.connections != connections_ && plan.connections < asked) {
    narrator_.narrate(engine::severity::warning, "connections_limited",
                      "Fewer connections than --max-connections fit into the limit of file descriptors",
                      {{"connections", std::uint64_t{plan.connections}},
                       {"max_connections", std::uint64_t{opts_.max_connections}},
                       {"descriptors", plan.soft}});
  }
  connections_ = plan.connections;
  return {};
}

std::uint32_t connection_room::for_held(const descriptor_users& users) {
  const auto plan = plan_connections(spare_descriptors(users), net::held_sockets_max);
  return plan ? std::max(plan->connections, std::uint32_t{1}) : net::held_sockets_max;
}

}  // namespace orcd::app
