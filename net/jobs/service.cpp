#include "net/jobs/service.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace orcd::net {

using std::chrono::steady_clock;

namespace {

cache_facts cache_now(const engine::cache_state& cache) {
  return {.queries = cache.queries.load(),
          .hits = cache.hits.load(),
          .query_tokens = cache.query_tokens.load(),
          .hit_tokens = cache.hit_tokens.load(),
          .evictions = cache.evictions.load(),
          .set_backs = cache.preemptions.load(),
          .pages_cached = cache.pages_cached.load(),
          .pages_used = cache.pages_used.load(),
          .sessions = cache.sessions.load(),
          .window_pages = cache.window_pages.load(),
          .window_pages_used = cache.window_pages_used.load(),
          .boundaries = cache.boundaries.load(),
          .boundaries_given_up = cache.boundaries_given_up.load()};
}

}  // namespace

service::service(server_config c, server_context ctx)
    : config(std::move(c)),
      context(std::move(ctx)),
      created_at_(steady_clock::now()),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()) {
  if (config.response_store_bytes > 0) {
    responses = std::make_shared<response_store>(config.response_store_bytes);
  }
}

bool service::draining() const noexcept {
  return stopping || context.admission.draining() || context.state.get() == engine::lifecycle::draining;
}

health_facts service::facts() const {
  const auto& state = context.state;
  const auto now = steady_clock::now();
  health_facts facts;
  facts.lifecycle = state.get();
  facts.cause = state.cause();
  facts.draining = draining();
  facts.running = context.admission.running();
  facts.waiting = context.admission.waiting();
  if (facts.running > 0) {
    // One at least counts as running, so that jobs for which nothing happens do not look like no jobs.
    const std::uint32_t without_pages = std::min(state.short_of_pages.load(), facts.running - 1);
    facts.running -= without_pages;
    facts.waiting += without_pages;
    const engine::steady_time last_step{std::chrono::nanoseconds(state.last_step_ns.load())};
    const auto age = now - std::max(last_step, busy_since);
    facts.step_age =
        std::max(std::chrono::milliseconds(0), std::chrono::duration_cast<std::chrono::milliseconds>(age));
  }
  facts.stall_threshold = config.stall_threshold;
  facts.uptime = std::chrono::duration_cast<std::chrono::seconds>(now - created_at_);
  facts.resident = state.resident.load();
  facts.vram_bytes = state.vram_bytes.load();
  facts.kv_bytes = state.kv_bytes.load();
  facts.adapters_bytes = state.adapters_bytes.load();
  facts.states_bytes = state.states_bytes.load();
  facts.load_percent = state.load_percent.load();
  facts.cache = cache_now(state.cache);
  if (context.memory) facts.memory = context.memory();
  if (context.adapters != nullptr) {
    facts.adapters = static_cast<std::uint32_t>(context.adapters->list()->size());
    facts.adapters_max = context.adapters->rooms();
  }
  return facts;
}

shared_adapters service::adapters() const {
  return context.adapters == nullptr ? shared_adapters() : context.adapters->list();
}

metrics_snapshot service::snapshot() const {
  const auto now = facts();
  const auto& identity = context.identity;
  metrics_snapshot shot;
  shot.model = identity.model_name;
  shot.quant_kind = identity.quant_kind;
  shot.digest = identity.digest;
  shot.backend = identity.backend;
  shot.version = identity.version;
  shot.gpu_device = identity.gpu_device;
  shot.active_experts = identity.active_experts;
  shot.slots = identity.slots;
  shot.kv_positions = context.state.kv_positions.load();
  shot.kv_positions_max = std::min(std::uint64_t{identity.slots} * identity.context_tokens,
                                   identity.kv_blocks() * engine::kv_page_positions);
  shot.kv_block_tokens = engine::kv_page_positions;
  shot.kv_blocks = identity.kv_blocks();
  shot.cache = now.cache;
  shot.vram_bytes = now.vram_bytes;
  shot.adapters = adapters();
  shot.adapters_max = now.adapters_max;
  shot.adapters_bytes = now.adapters_bytes;
  shot.states_bytes = now.states_bytes;
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  shot.wall_seconds = std::floor(std::chrono::duration<double>(wall).count());
  shot.resident = now.resident;
  shot.post_ready_allocations = now.memory.post_ready_allocations;
  shot.pinned_bytes = now.memory.pinned_bytes;
  shot.state = engine::to_string(shown_state(now));
  shot.health = engine::to_string(shown_health(now));
  shot.startup_seconds = context.state.startup_seconds.load();
  shot.load_seconds = context.state.load_seconds.load();
  shot.load_bytes = context.state.load_bytes.load();
  shot.uptime_seconds = std::chrono::duration<double>(steady_clock::now() - created_at_).count();
  shot.step_age_seconds = std::chrono::duration<double>(now.step_age).count();
  shot.steps = context.state.steps.load();
  const auto& drafts = context.state.drafts;
  shot.drafts = {drafts.steps.load(), drafts.tokens.load(), drafts.accepted.load(), {}};
  for (std::size_t i = 0; i < drafts.accepted_at.size(); ++i)
    shot.drafts.accepted_at[i] = drafts.accepted_at[i].load();
  shot.waiting = now.waiting;
  shot.running = now.running;
  shot.connections = connections.size();
  if (responses) {
    shot.stored.bytes_max = config.response_store_bytes;
    shot.stored.bytes = responses->bytes();
    shot.stored.responses = responses->size();
    shot.stored.evicted = responses->evicted();
  }
  return shot;
}

std::string service::scrape(bool milliseconds) const {
  auto text = render_metrics(metrics, snapshot(), {milliseconds, config.compat == metrics_compat::vllm});
  if (more_families) text += more_families();
  return text;
}

void service::cancel(const std::string& job_id, engine::cancel_reason reason) {
  const auto found = streams.find(job_id);
  if (found != streams.end()) found->second->cancel(reason);
}

void service::cancel_all(engine::cancel_reason reason) {
  for (const auto& [id, stream] : streams) stream->cancel(reason);
}

}  // namespace orcd::net
