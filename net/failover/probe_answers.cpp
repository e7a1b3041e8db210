#include "net/failover/probe_answers.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::health_status;
using engine::lifecycle;

bool serves_well(const probe_facts& facts) noexcept {
  return facts.moving && facts.lifecycle != lifecycle::failed &&
         engine::status_of(facts.cause) != health_status::unhealthy;
}

std::string describe(const probe_facts& facts, bool good, const std::string& reason) {
  std::string body;
  json_object json(body);
  json.text("status", good ? "ok" : "not_ok");
  if (!reason.empty()) json.text("reason", reason);
  if (!facts.alone) json.text("failover_state", to_string(facts.state));
  json.text("state", engine::to_string(facts.lifecycle));
  if (!facts.alone) {
    json.text("role", facts.state == failover_state::active ? "active" : "standby")
        .integer("engine_id", facts.engine)
        .text("lock_owner", facts.owner);
  }
  if (facts.epoch > 0) json.integer("epoch", facts.epoch);
  if (facts.holder_connected) json.boolean("holder_connected", *facts.holder_connected);
  if (!facts.alone) json.integer("resumed_total", facts.resumed);
  json.close();
  return body;
}

constexpr std::array orders{system_order::sleep, system_order::wake_up, system_order::shutdown};

/// The order that has this path.
std::optional<system_order> order_at(std::string_view path) noexcept {
  const auto* const found = std::find_if(orders.begin(), orders.end(),
                                         [path](system_order order) { return path_of(order) == path; });
  return found == orders.end() ? std::nullopt : std::optional(*found);
}

std::string_view path_in(std::string_view target) noexcept {
  return target.substr(0, target.find('?'));
}

}  // namespace

bool is_live(const probe_facts& facts) noexcept {
  switch (facts.state) {
    case failover_state::init:
    case failover_state::dead: return false;
    case failover_state::standby:
    case failover_state::waking:
    case failover_state::active:
    case failover_state::yielding: return facts.moving;
    case failover_state::draining: return true;
  }
  return false;
}

bool is_healthy(const probe_facts& facts) noexcept {
  switch (facts.state) {
    case failover_state::init: return facts.starts_healthy && !facts.endpoint_only;
    case failover_state::standby:
    case failover_state::waking:
    case failover_state::yielding: return !facts.endpoint_only && serves_well(facts);
    case failover_state::active: return serves_well(facts);
    case failover_state::draining:
    case failover_state::dead: break;
  }
  return false;
}

bool is_ready(const probe_facts& facts) noexcept {
  return facts.state == failover_state::active && facts.lifecycle == lifecycle::ready && serves_well(facts);
}

std::optional<reply> answer_probe(std::string_view method, std::string_view target,
                                  const probe_facts& facts) {
  constexpr std::array<std::string_view, 4> probes{"/live", "/health", "/ready", "/metrics"};
  const auto path = path_in(target);
  const bool ordered = order_at(path).has_value();
  if (!ordered && std::find(probes.begin(), probes.end(), path) == probes.end()) {
    return make_error_reply({engine::errc::not_found,
                             "the system port has /live, /health, /ready, /metrics, /engine/sleep, "
                             "/engine/wake_up and /shutdown"});
  }
  if (ordered || (method != "GET" && method != "HEAD")) {
    reply refused = make_protocol_reply(405, ordered ? "this path takes POST" : "this path takes GET");
    refused.allow = ordered ? "POST" : "GET, HEAD";
    return refused;
  }
  if (path == "/metrics") return std::nullopt;
  const bool good = path == "/live"     ? is_live(facts)
                    : path == "/health" ? is_healthy(facts)
                                        : is_ready(facts);
  return make_json_reply(good ? 200 : 503, describe(facts, good, {}));
}

std::string_view path_of(system_order order) noexcept {
  switch (order) {
    case system_order::sleep: return "/engine/sleep";
    case system_order::wake_up: return "/engine/wake_up";
    case system_order::shutdown: break;
  }
  return "/shutdown";
}

std::string_view what_of(system_order order) noexcept {
  switch (order) {
    case system_order::sleep: return "have another engine serve";
    case system_order::wake_up: return "ask an engine to serve";
    case system_order::shutdown: break;
  }
  return "stop the worker";
}

std::optional<system_order> find_order(std::string_view method, std::string_view target) noexcept {
  return method == "POST" ? order_at(path_in(target)) : std::nullopt;
}

reply answer_order(const probe_facts& facts, const engine::result<void>& done) {
  return make_json_reply(done ? 200 : 409,
                         describe(facts, done.has_value(), done ? std::string() : done.error().message));
}

engine::result<void> answer_wake(const probe_facts& facts) {
  if (facts.state == failover_state::active) return {};
  return engine::error(engine::errc::not_ready,
                       "the engine is " + std::string(to_string(facts.state)) + ": only the lock wakes it");
}

}  // namespace orcd::net
