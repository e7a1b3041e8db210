#include "net/status/metrics.hpp"

#include <algorithm>

#include "net/status/metrics_text.hpp"

namespace orcd::net {
namespace {

// Upper bounds in seconds: OpenTelemetry's for time to first token, doubling from 10 ms for durations,
// and finer than OpenTelemetry's between tokens, since ours take a few milliseconds.
constexpr std::array<double, 16> first_token_bounds = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                                       0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10};
constexpr std::array<double, 16> duration_bounds = {0.01, 0.02, 0.04,  0.08,  0.16,  0.32,  0.64,   1.28,
                                                    2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68};
constexpr std::array<double, 22> inter_token_bounds = {
    0.00025, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.004, 0.005, 0.0075, 0.01, 0.025,
    0.05,    0.075,  0.1,   0.15,   0.2,   0.3,   0.4,   0.5,   0.75,   1,    2.5};
constexpr std::array<double, 10> cancel_bounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5};
constexpr std::array<double, 9> deadline_bounds = {0, 0.1, 0.5, 1, 5, 10, 60, 300, 3600};
constexpr std::array<std::string_view, 5> states = {"starting", "ready", "busy", "draining", "failed"};
constexpr std::array<std::string_view, 3> healths = {"healthy", "degraded", "unhealthy"};

void render_start(metrics_text& out, const metrics_snapshot& now) {
  out.family("worker_startup_seconds", "gauge", "From the start of the process to ready; 0 until then.")
      .sample(now.startup_seconds);
  out.family("worker_model_load_seconds", "gauge", "What loading the model took; 0 until it is loaded.")
      .sample(now.load_seconds);
  out.family("worker_model_load_bytes", "gauge", "Bytes of the tensors that were loaded; 0 until then.")
      .sample(static_cast<double>(now.load_bytes));
}

void render_worker(metrics_text& out, const metrics_snapshot& now) {
  const std::string device = std::to_string(now.gpu_device);
  out.family("worker_info", "gauge", "What this worker serves; always 1.")
      .sample(1, {{"model", now.model},
                  {"quant_kind", now.quant_kind},
                  {"digest", now.digest},
                  {"backend", now.backend},
                  {"gpu_device", device},
                  {"version", now.version}});
  out.family("worker_state", "gauge", "1 for the state the worker is in, 0 for the others.");
  for (const auto state : states) out.sample(state == now.state ? 1 : 0, {{"state", state}});
  out.family("worker_health", "gauge", "1 for the status that /health shows, 0 for the others.");
  for (const auto health : healths) out.sample(health == now.health ? 1 : 0, {{"status", health}});
  out.family("worker_uptime_seconds", "gauge", "Seconds since the server was created.")
      .sample(now.uptime_seconds);
  out.family("worker_vram_bytes", "gauge", "Device memory held; 0 on the host backend.")
      .sample(static_cast<double>(now.vram_bytes), {{"quant_kind", now.quant_kind}});
  out.family("worker_pinned_bytes", "gauge", "Pinned host memory held.")
      .sample(static_cast<double>(now.pinned_bytes));
  out.family("worker_post_ready_allocations_total", "counter",
             "Device allocations since the model was loaded; every one is a defect.")
      .sample(static_cast<double>(now.post_ready_allocations));
  out.family("worker_resident", "gauge", "1 while all model memory is in VRAM.").sample(now.resident ? 1 : 0);
  out.family("worker_active_experts", "gauge", "Experts used per token of a mixture model, else 0.")
      .sample(now.active_experts);
  out.family("worker_slots", "gauge", "Jobs that run at the same time.").sample(now.slots);
  out.family("worker_requests_waiting", "gauge", "Accepted jobs that wait for a slot.").sample(now.waiting);
  out.family("worker_requests_running", "gauge", "Jobs in a slot.").sample(now.running);
  out.family("worker_kv_cache_usage_ratio", "gauge", "Share of the KV cache that running jobs use, 0 to 1.")
      .sample(now.kv_usage());
  out.family("worker_kv_block_tokens", "gauge", "Positions in one page of the KV cache.")
      .sample(now.kv_block_tokens);
  out.family("worker_kv_blocks", "gauge", "Pages of the KV cache, all slots together.")
      .sample(static_cast<double>(now.kv_blocks));
  out.family("worker_steps_total", "counter", "Accelerator steps run.")
      .sample(static_cast<double>(now.steps));
  out.family("worker_gpu_step_age_seconds", "gauge", "Seconds since the last step while a job runs, else 0.")
      .sample(now.step_age_seconds);
  out.family("worker_connections", "gauge", "Open HTTP connections.")
      .sample(static_cast<double>(now.connections));
}

void render_cache(metrics_text& out, const cache_facts& cache) {
  const auto number = [&](std::string_view name, std::string_view kind, std::string_view help, auto value) {
    out.family(name, kind, help).sample(static_cast<double>(value));
  };
  number("worker_prefix_cache_queries_total", "counter", "Jobs that asked for a cached prefix.",
         cache.queries);
  number("worker_prefix_cache_hits_total", "counter", "Jobs that found one.", cache.hits);
  number("worker_prefix_cache_query_tokens_total", "counter", "Prompt tokens of jobs that asked.",
         cache.query_tokens);
  number("worker_prefix_cache_hit_tokens_total", "counter", "Prompt tokens that were not computed again.",
         cache.hit_tokens);
  number("worker_prefix_cache_evictions_total", "counter", "Cached pages given up for a job.",
         cache.evictions);
  number("worker_prefix_cache_blocks", "gauge", "Pages of the KV cache that no job uses and that are kept.",
         cache.pages_cached);
  number("worker_prefix_cache_sessions", "gauge", "Sessions whose last state is kept.", cache.sessions);
  number("worker_kv_blocks_used", "gauge", "Pages of the KV cache that running jobs hold.", cache.pages_used);
  if (cache.window_pages > 0) {
    number("worker_kv_window_blocks", "gauge", "Pages of layers with a sliding window.", cache.window_pages);
    number("worker_kv_window_blocks_used", "gauge", "Of them, those that running jobs hold.",
           cache.window_pages_used);
    number("worker_prefix_boundaries", "gauge",
           "Positions at which prefixes can be shared by layers with a sliding window, too.",
           cache.boundaries);
    number("worker_prefix_boundaries_given_up_total", "counter", "Of them, those given up for a job's pages.",
           cache.boundaries_given_up);
  }
  number("worker_jobs_set_back_total", "counter",
         "Running jobs that gave their pages to older ones and wait for a slot again.", cache.set_backs);
}

void render_positions(metrics_text& out, const draft_facts& drafts) {
  for (std::size_t i = 0; i < drafts.accepted_at.size(); ++i)
    out.sample(static_cast<double>(drafts.accepted_at[i]), {{"position", std::to_string(i)}});
}

void render_drafts(metrics_text& out, const draft_facts& drafts) {
  out.family("worker_draft_steps_total", "counter", "Steps of a job that checked drafts.")
      .sample(static_cast<double>(drafts.steps));
  out.family("worker_draft_tokens_total", "counter", "Drafts that were checked.")
      .sample(static_cast<double>(drafts.tokens));
  out.family("worker_draft_tokens_accepted_total", "counter", "Drafts that became output.")
      .sample(static_cast<double>(drafts.accepted));
  out.family("worker_draft_tokens_accepted_at_total", "counter",
             "Drafts that became output, by how many came before them in their step.");
  render_positions(out, drafts);
}

void render_stored(metrics_text& out, const stored_facts& stored) {
  out.family("worker_stored_responses", "gauge", "Responses that are kept in memory.")
      .sample(static_cast<double>(stored.responses));
  out.family("worker_stored_response_bytes", "gauge", "Memory that they take.")
      .sample(static_cast<double>(stored.bytes));
  out.family("worker_stored_response_bytes_max", "gauge", "What they may take; 0 where none are kept.")
      .sample(static_cast<double>(stored.bytes_max));
  out.family("worker_stored_responses_evicted_total", "counter", "Responses given up for newer ones.")
      .sample(static_cast<double>(stored.evicted));
}

const adapter_list& loaded_in(const metrics_snapshot& now) {
  static const adapter_list none;
  return now.adapters ? *now.adapters : none;
}

void render_states(metrics_text& out, const metrics_snapshot& now) {
  if (now.states_bytes == 0) return;
  out.family("worker_states_bytes", "gauge", "Memory of recurrent states and convolutions of the slots.")
      .sample(static_cast<double>(now.states_bytes));
}

void render_adapters(metrics_text& out, const metrics_snapshot& now) {
  if (now.adapters_max == 0) return;
  const adapter_list& all = loaded_in(now);
  out.family("worker_lora_adapters", "gauge", "LoRA adapters that are loaded.")
      .sample(static_cast<double>(all.size()));
  out.family("worker_lora_adapters_max", "gauge", "LoRA adapters that there is room for.")
      .sample(now.adapters_max);
  out.family("worker_lora_room_bytes", "gauge", "Memory of that room.")
      .sample(static_cast<double>(now.adapters_bytes));
  if (all.empty()) return;
  out.family("worker_lora_adapter_bytes", "gauge", "Bytes of an adapter's values.");
  for (const auto& one : all) out.sample(static_cast<double>(one.bytes), {{"adapter", one.name}});
  out.family("worker_lora_adapter_requests", "gauge", "Requests that use an adapter.");
  for (const auto& one : all) out.sample(one.traffic->users, {{"adapter", one.name}});
  out.family("worker_lora_adapter_requests_total", "counter", "Requests that have used an adapter.");
  for (const auto& one : all) {
    out.sample(static_cast<double>(one.traffic->requests), {{"adapter", one.name}});
  }
}

/// The metrics that the endpoint picker of the Gateway API Inference Extension reads from vLLM, and those of
/// drafts, by the same names.
void render_vllm(metrics_text& out, const metrics_snapshot& now) {
  out.family("vllm:num_requests_waiting", "gauge", "worker_requests_waiting.").sample(now.waiting);
  out.family("vllm:num_requests_running", "gauge", "worker_requests_running.").sample(now.running);
  out.family("vllm:kv_cache_usage_perc", "gauge", "worker_kv_cache_usage_ratio, 0 to 1.")
      .sample(now.kv_usage());
  out.family("vllm:cache_config_info", "gauge", "worker_kv_block_tokens and worker_kv_blocks; always 1.")
      .sample(1, {{"block_size", std::to_string(now.kv_block_tokens)},
                  {"num_gpu_blocks", std::to_string(now.kv_blocks)}});
  out.family("vllm:num_preemptions_total", "counter", "worker_jobs_set_back_total.")
      .sample(static_cast<double>(now.cache.set_backs));
  out.family("vllm:spec_decode_num_drafts_total", "counter", "worker_draft_steps_total.")
      .sample(static_cast<double>(now.drafts.steps));
  out.family("vllm:spec_decode_num_draft_tokens_total", "counter", "worker_draft_tokens_total.")
      .sample(static_cast<double>(now.drafts.tokens));
  out.family("vllm:spec_decode_num_accepted_tokens_total", "counter", "worker_draft_tokens_accepted_total.")
      .sample(static_cast<double>(now.drafts.accepted));
  out.family("vllm:spec_decode_num_accepted_tokens_per_pos_total", "counter",
             "worker_draft_tokens_accepted_at_total.");
  render_positions(out, now.drafts);
  if (now.adapters_max == 0) return;
  std::string used;
  for (const auto& one : loaded_in(now)) {
    if (one.traffic->users > 0) used += (used.empty() ? "" : ",") + one.name;
  }
  out.family("vllm:lora_requests_info", "gauge",
             "The LoRA adapters that requests use, and how many there is room for; the time of the scrape.")
      .sample(now.wall_seconds, {{"running_lora_adapters", used},
                                 {"waiting_lora_adapters", ""},
                                 {"max_lora", std::to_string(now.adapters_max)}});
}

void render_counters(metrics_text& out, const server_metrics& m) {
  out.family("worker_requests_total", "counter", "Requests to /execute by how they ended.");
  for (std::size_t i = 0; i < m.requests.size(); ++i) {
    out.sample(static_cast<double>(m.requests[i]), {{"outcome", to_string(static_cast<outcome>(i))}});
  }
  out.family("worker_disconnects_total", "counter", "Clients that went away, by what their job was doing.");
  for (std::size_t i = 0; i < m.disconnects.size(); ++i) {
    out.sample(static_cast<double>(m.disconnects[i]), {{"phase", to_string(static_cast<phase>(i))}});
  }
  out.family("worker_tokens_in_total", "counter", "Prompt tokens of accepted jobs.")
      .sample(static_cast<double>(m.tokens_in));
  out.family("worker_tokens_generated_total", "counter", "Output tokens.")
      .sample(static_cast<double>(m.tokens_out));
  out.family("worker_connections_accepted_total", "counter", "HTTP connections accepted.")
      .sample(static_cast<double>(m.connections_total));
  out.family("worker_connections_refused_total", "counter",
             "HTTP connections refused because too many were open.")
      .sample(static_cast<double>(m.connections_refused));
  out.family("worker_http_responses_total", "counter", "HTTP responses by status.");
  for (const auto& [status, count] : m.responses) {
    out.sample(static_cast<double>(count), {{"status", std::to_string(status)}});
  }
  m.counts.render(out);
}

void render_histograms(metrics_text& out, const server_metrics& m, bool milliseconds) {
  out.distribution("worker_inference_duration_seconds", "From request to last event, for accepted jobs.",
                   m.duration_seconds);
  if (milliseconds) {
    out.distribution("worker_inference_duration_ms", "worker_inference_duration_seconds in milliseconds.",
                     m.duration_seconds, 1000.0);
  }
  out.distribution("worker_time_to_first_token_seconds", "From request to first token.",
                   m.first_token_seconds);
  out.distribution("worker_inter_token_latency_seconds", "Between two tokens of one job.",
                   m.inter_token_seconds);
  out.distribution("worker_request_queue_time_seconds", "From request to slot.", m.queue_seconds);
  out.distribution("worker_request_prefill_time_seconds", "From slot to first token.", m.prefill_seconds);
  out.distribution("worker_request_decode_time_seconds", "From first token to last.", m.decode_seconds);
  out.distribution("worker_cancel_to_idle_seconds",
                   "From a cancel, disconnect or timeout to the end of the job.", m.cancel_to_idle_seconds);
  out.distribution("worker_deadline_remaining_seconds", "Time left to X-Deadline when a request arrived.",
                   m.deadline_remaining_seconds);
}

}  // namespace

std::string_view to_string(outcome o) noexcept {
  constexpr std::array<std::string_view, 6> names = {"completed", "cancelled", "disconnected",
                                                     "timeout",   "error",     "refused"};
  return names[static_cast<std::size_t>(o)];
}

std::string_view to_string(phase p) noexcept {
  constexpr std::array<std::string_view, 3> names = {"queued", "prefill", "decode"};
  return names[static_cast<std::size_t>(p)];
}

server_metrics::server_metrics()
    : duration_seconds(duration_bounds),
      first_token_seconds(first_token_bounds),
      inter_token_seconds(inter_token_bounds),
      queue_seconds(first_token_bounds),
      prefill_seconds(first_token_bounds),
      decode_seconds(duration_bounds),
      cancel_to_idle_seconds(cancel_bounds),
      deadline_remaining_seconds(deadline_bounds) {}

void server_metrics::count_job(outcome how, const engine::job_stats& stats, double duration_ms) {
  ++requests[static_cast<std::size_t>(how)];
  tokens_out += stats.tokens_out;
  duration_seconds.observe(duration_ms / 1000.0);
  queue_seconds.observe(stats.queue_ms / 1000.0);
  tokens_in += stats.tokens_in;
  if (stats.tokens_out == 0) return;
  prefill_seconds.observe(stats.prefill_ms / 1000.0);
  decode_seconds.observe(stats.decode_ms / 1000.0);
}

std::string render_metrics(const server_metrics& metrics, const metrics_snapshot& now,
                           metrics_extras extras) {
  metrics_text out;
  render_worker(out, now);
  render_start(out, now);
  render_cache(out, now.cache);
  render_drafts(out, now.drafts);
  render_stored(out, now.stored);
  render_states(out, now);
  render_adapters(out, now);
  if (extras.vllm) render_vllm(out, now);
  render_counters(out, metrics);
  render_histograms(out, metrics, extras.milliseconds);
  return std::move(out).take();
}

}  // namespace orcd::net
