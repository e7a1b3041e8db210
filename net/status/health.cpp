#include "net/status/health.hpp"

#include <utility>

#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::health_status;
using engine::lifecycle;

reply make_status_reply(bool good, std::string_view status, std::string_view state) {
  std::string body;
  json_object json(body);
  json.text("status", status).text("state", state);
  json.close();
  return make_json_reply(good ? 200 : 503, std::move(body));
}

}  // namespace

lifecycle shown_state(const health_facts& facts) noexcept {
  if (facts.lifecycle == lifecycle::failed) return facts.lifecycle;
  // What is before the start of one of several engines is told by its system port.
  if (is_before_ready(facts.lifecycle)) return lifecycle::starting;
  if (facts.draining || facts.lifecycle == lifecycle::draining) return lifecycle::draining;
  return facts.running > 0 ? lifecycle::busy : lifecycle::ready;
}

bool is_stalled(const health_facts& facts) noexcept {
  return facts.running > 0 && facts.step_age > facts.stall_threshold;
}

health_status shown_health(const health_facts& facts) noexcept {
  if (facts.lifecycle == lifecycle::failed || is_stalled(facts)) return health_status::unhealthy;
  return engine::status_of(facts.cause);
}

std::string health_reason(const health_facts& facts) {
  if (is_stalled(facts)) {
    return "a job runs and no step has ended for more than " + std::to_string(facts.stall_threshold.count()) +
           " ms";
  }
  if (facts.cause == engine::health_cause::none && facts.lifecycle == lifecycle::failed) {
    return "the worker failed and ends";
  }
  return std::string(engine::describe(facts.cause));
}

reply make_health_reply(const health_facts& facts, const engine::worker_identity& identity) {
  const auto health = shown_health(facts);
  std::string body;
  body.reserve(512);
  json_object json(body);
  const auto reason = health_reason(facts);
  json.text("status", engine::to_string(health));
  reason.empty() ? json.null("reason") : json.text("reason", reason);
  json.text("state", engine::to_string(shown_state(facts)))
      .text("model", identity.model_name)
      .text("quant_kind", identity.quant_kind)
      .boolean("resident", facts.resident)
      .integer("vram_bytes", facts.vram_bytes)
      .integer("kv_bytes", facts.kv_bytes)
      .text("kv_type_k", engine::to_string(identity.kv.keys))
      .text("kv_type_v", engine::to_string(identity.kv.values));
  if (facts.states_bytes > 0) json.integer("states_bytes", facts.states_bytes);
  if (facts.adapters_max > 0) {
    json.integer("adapters_bytes", facts.adapters_bytes)
        .integer("adapters", facts.adapters)
        .integer("adapters_max", facts.adapters_max);
  }
  json.integer("kv_pages", identity.kv_blocks())
      .integer("kv_pages_used", facts.cache.pages_used)
      .integer("kv_pages_cached", facts.cache.pages_cached);
  if (facts.cache.window_pages > 0) {
    json.integer("kv_window_pages", facts.cache.window_pages)
        .integer("kv_window_pages_used", facts.cache.window_pages_used)
        .integer("prefix_boundaries", facts.cache.boundaries);
  }
  json.integer("cache_queries", facts.cache.queries)
      .integer("cache_hits", facts.cache.hits)
      .integer("cache_tokens_saved", facts.cache.hit_tokens)
      .integer("cache_evictions", facts.cache.evictions)
      .integer("cache_sessions", facts.cache.sessions)
      .integer("jobs_set_back", facts.cache.set_backs)
      .integer("pinned_bytes", facts.memory.pinned_bytes)
      .text("backend", identity.backend)
      .text("gpu_name", identity.gpu_name)
      .text("gpu_uuid", identity.gpu_uuid)
      .integer("uptime_seconds", facts.uptime.count())
      .integer("last_step_age_ms", facts.step_age.count())
      .text("system_fingerprint", identity.system_fingerprint)
      .text("tokenizer", identity.tokenizer_kind)
      .text("architecture", identity.architecture)
      .integer("context_tokens", identity.context_tokens)
      .integer("slots", identity.slots)
      .integer("running", facts.running)
      .integer("waiting", facts.waiting)
      .integer("load_percent", facts.load_percent)
      .text("worker_id", identity.worker_id)
      .text("version", identity.version);
  // Hashing a large file takes longer than loading it.
  if (identity.digest.empty()) {
    json.null("digest");
  } else {
    json.text("digest", identity.digest);
  }
  // Who answers here is the one engine that serves.
  if (identity.engine_id) {
    json.integer("engine_id", *identity.engine_id)
        .text("role", "active")
        .text("lock_owner", "engine-" + std::to_string(*identity.engine_id));
  }
  json.close();
  return make_json_reply(health != health_status::unhealthy ? 200 : 503, std::move(body));
}

reply make_live_reply(const health_facts& facts) {
  const bool good = !is_stalled(facts);
  return make_status_reply(good, good ? "alive" : "stalled", engine::to_string(shown_state(facts)));
}

reply make_ready_reply(const health_facts& facts) {
  const auto state = shown_state(facts);
  const bool accepts = state == lifecycle::ready || state == lifecycle::busy;
  const bool good = accepts && shown_health(facts) != health_status::unhealthy;
  return make_status_reply(good, good ? "ready" : "not_ready", engine::to_string(state));
}

}  // namespace orcd::net
