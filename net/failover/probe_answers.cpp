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
  json.text("failover_state", to_string(facts.state))
      .text("state", engine::to_string(facts.lifecycle))
      .text("role", facts.state == failover_state::active ? "active" : "standby")
      .integer("engine_id", facts.engine)
      .text("lock_owner", facts.owner);
  if (facts.epoch > 0) json.integer("epoch", facts.epoch);
  if (facts.holder_connected) json.boolean("holder_connected", *facts.holder_connected);
  json.integer("resumed_total", facts.resumed);
  json.close();
  return body;
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
  constexpr std::array<std::string_view, 6> known{"/live",    "/health",  "/ready",
                                                  "/metrics", sleep_path, wake_path};
  const auto path = target.substr(0, target.find('?'));
  if (std::find(known.begin(), known.end(), path) == known.end()) {
    return make_error_reply({engine::errc::not_found,
                             "the system port has /live, /health, /ready, /metrics, /engine/sleep and "
                             "/engine/wake_up"});
  }
  const bool ordered = path == sleep_path || path == wake_path;
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

bool is_order(std::string_view method, std::string_view target) noexcept {
  const auto path = target.substr(0, target.find('?'));
  return method == "POST" && (path == sleep_path || path == wake_path);
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
