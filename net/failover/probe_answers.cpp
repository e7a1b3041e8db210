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

}  // namespace

bool is_live(const probe_facts& facts) noexcept {
  switch (facts.state) {
    case failover_state::init:
    case failover_state::dead: return false;
    case failover_state::standby:
    case failover_state::waking:
    case failover_state::active: return facts.moving;
    case failover_state::draining: return true;
  }
  return false;
}

bool is_healthy(const probe_facts& facts) noexcept {
  switch (facts.state) {
    case failover_state::init: return facts.starts_healthy && !facts.endpoint_only;
    case failover_state::standby:
    case failover_state::waking: return !facts.endpoint_only && serves_well(facts);
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
  constexpr std::array<std::string_view, 4> known{"/live", "/health", "/ready", "/metrics"};
  const auto path = target.substr(0, target.find('?'));
  if (std::find(known.begin(), known.end(), path) == known.end()) {
    return make_error_reply(
        {engine::errc::not_found, "the system port has /live, /health, /ready and /metrics"});
  }
  if (method != "GET" && method != "HEAD") {
    reply refused = make_protocol_reply(405, "the system port answers GET");
    refused.allow = "GET, HEAD";
    return refused;
  }
  if (path == "/metrics") return std::nullopt;
  const bool good = path == "/live"     ? is_live(facts)
                    : path == "/health" ? is_healthy(facts)
                                        : is_ready(facts);
  std::string body;
  json_object json(body);
  json.text("status", good ? "ok" : "not_ok")
      .text("failover_state", to_string(facts.state))
      .text("state", engine::to_string(facts.lifecycle))
      .text("role", facts.state == failover_state::active ? "active" : "standby")
      .integer("engine_id", facts.engine)
      .text("lock_owner", facts.owner);
  json.close();
  return make_json_reply(good ? 200 : 503, std::move(body));
}

}  // namespace orcd::net
