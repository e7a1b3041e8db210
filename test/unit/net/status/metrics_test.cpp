#include "net/status/metrics.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <sstream>

#include "net/status/health.hpp"
#include "net/status/metrics_text.hpp"

namespace orcd::net {
namespace {

using engine::health_cause;
using engine::lifecycle;

bool has_line(const std::string& text, const std::string& line) {
  return text.find(line + "\n") != std::string::npos;
}

BOOST_AUTO_TEST_SUITE(metrics)

BOOST_AUTO_TEST_CASE(histograms_count_up_to_their_bound) {
  constexpr std::array<double, 2> bounds = {1, 2};
  histogram h(bounds);
  for (const double value : {0.5, 1.0, 1.5, 2.0, 2.5}) h.observe(value);
  metrics_text text;
  const auto out = std::move(text.distribution("d_seconds", "Help.", h)).take();
  BOOST_TEST(out ==
             "# HELP d_seconds Help.\n# TYPE d_seconds histogram\n"
             "d_seconds_bucket{le=\"1\"} 2\nd_seconds_bucket{le=\"2\"} 4\nd_seconds_bucket{le=\"+Inf\"} 5\n"
             "d_seconds_sum 7.5\nd_seconds_count 5\n");
}

BOOST_AUTO_TEST_CASE(label_values_are_escaped) {
  metrics_text text;
  text.family("m", "gauge", "Help.").sample(0.25, {{"a", "x\"y\\z\n"}, {"b", ""}});
  BOOST_TEST(std::move(text).take() ==
             "# HELP m Help.\n# TYPE m gauge\nm{a=\"x\\\"y\\\\z\\n\",b=\"\"} 0.25\n");
}

BOOST_AUTO_TEST_CASE(a_scrape_has_the_names_of_the_seeds_and_each_family_once) {
  server_metrics m;
  engine::job_stats stats;
  stats.tokens_in = 5;
  stats.tokens_out = 3;
  m.first_token_seconds.observe(0.02);
  m.count_job(outcome::completed, stats, 120);
  m.responses[200] = 4;
  metrics_snapshot now;
  now.state = "busy";
  now.health = "degraded";
  now.startup_seconds = 1.5;
  now.load_seconds = 1.25;
  now.load_bytes = 91'734'784;
  now.quant_kind = "Q4_K_M";
  now.active_experts = 4;
  now.kv_positions = 96;
  now.kv_positions_max = 1'536;
  now.kv_block_tokens = 256;
  now.kv_blocks = 6;
  now.cache = {.queries = 9,
               .hits = 7,
               .query_tokens = 900,
               .hit_tokens = 650,
               .evictions = 3,
               .pages_cached = 4,
               .pages_used = 2,
               .sessions = 1};
  const auto text = render_metrics(m, now, {.milliseconds = true, .vllm = false});
  BOOST_TEST(has_line(text, "worker_requests_total{outcome=\"completed\"} 1"));
  BOOST_TEST(has_line(text, "worker_tokens_in_total 5"));
  BOOST_TEST(has_line(text, "worker_tokens_generated_total 3"));
  BOOST_TEST(has_line(text, "worker_vram_bytes{quant_kind=\"Q4_K_M\"} 0"));
  BOOST_TEST(has_line(text, "worker_state{state=\"busy\"} 1"));
  BOOST_TEST(has_line(text, "worker_state{state=\"ready\"} 0"));
  BOOST_TEST(has_line(text, "worker_health{status=\"healthy\"} 0"));
  BOOST_TEST(has_line(text, "worker_health{status=\"degraded\"} 1"));
  BOOST_TEST(has_line(text, "worker_health{status=\"unhealthy\"} 0"));
  BOOST_TEST(has_line(text, "worker_startup_seconds 1.5"));
  BOOST_TEST(has_line(text, "worker_model_load_seconds 1.25"));
  BOOST_TEST(has_line(text, "worker_model_load_bytes 91734784"));
  BOOST_TEST(has_line(text, "worker_http_responses_total{status=\"200\"} 4"));
  BOOST_TEST(has_line(text, "worker_inference_duration_ms_sum 120"));
  BOOST_TEST(has_line(text, "worker_inference_duration_seconds_sum 0.12"));
  BOOST_TEST(has_line(text, "worker_time_to_first_token_seconds_count 1"));
  BOOST_TEST(has_line(text, "worker_active_experts 4"));
  BOOST_TEST(has_line(text, "worker_kv_cache_usage_ratio 0.0625"));
  BOOST_TEST(has_line(text, "worker_kv_block_tokens 256"));
  BOOST_TEST(has_line(text, "worker_kv_blocks 6"));
  BOOST_TEST(has_line(text, "worker_kv_blocks_used 2"));
  BOOST_TEST(has_line(text, "worker_prefix_cache_queries_total 9"));
  BOOST_TEST(has_line(text, "worker_prefix_cache_hits_total 7"));
  BOOST_TEST(has_line(text, "worker_prefix_cache_query_tokens_total 900"));
  BOOST_TEST(has_line(text, "worker_prefix_cache_hit_tokens_total 650"));
  BOOST_TEST(has_line(text, "worker_prefix_cache_evictions_total 3"));
  BOOST_TEST(has_line(text, "worker_prefix_cache_blocks 4"));
  BOOST_TEST(has_line(text, "worker_prefix_cache_sessions 1"));
  BOOST_TEST(render_metrics(m, now).find("duration_ms") == std::string::npos);

  std::set<std::string> families;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# TYPE ")) BOOST_TEST(families.insert(line).second, line);
  }
  BOOST_TEST(families.size() > 20U);
}

BOOST_AUTO_TEST_CASE(drafts_are_counted_whole_and_by_place) {
  metrics_snapshot now;
  now.drafts = {.steps = 11, .tokens = 40, .accepted = 29, .accepted_at = {11, 10, 8}};
  const auto text = render_metrics({}, now, {.milliseconds = false, .vllm = true});
  BOOST_TEST(has_line(text, "worker_draft_steps_total 11"));
  BOOST_TEST(has_line(text, "worker_draft_tokens_total 40"));
  BOOST_TEST(has_line(text, "worker_draft_tokens_accepted_total 29"));
  for (const std::string name :
       {"worker_draft_tokens_accepted_at_total", "vllm:spec_decode_num_accepted_tokens_per_pos_total"}) {
    BOOST_TEST(has_line(text, name + "{position=\"2\"} 8"));
    BOOST_TEST(has_line(text, name + "{position=\"14\"} 0"));
  }
}

BOOST_AUTO_TEST_CASE(jobs_that_were_set_back_are_what_vllm_calls_preempted) {
  metrics_snapshot now;
  now.cache.set_backs = 5;
  const auto text = render_metrics(server_metrics(), now, {.milliseconds = false, .vllm = true});
  BOOST_TEST(has_line(text, "worker_jobs_set_back_total 5"));
  BOOST_TEST(has_line(text, "vllm:num_preemptions_total 5"));
}

BOOST_AUTO_TEST_CASE(responses_that_are_kept) {
  metrics_snapshot now;
  now.stored = {.bytes_max = 1'048'576, .bytes = 2'048, .responses = 2, .evicted = 5};
  const auto text = render_metrics(server_metrics(), now);
  BOOST_TEST(has_line(text, "worker_stored_responses 2"));
  BOOST_TEST(has_line(text, "worker_stored_response_bytes 2048"));
  BOOST_TEST(has_line(text, "worker_stored_response_bytes_max 1048576"));
  BOOST_TEST(has_line(text, "worker_stored_responses_evicted_total 5"));
}

BOOST_AUTO_TEST_CASE(the_names_of_vllm_are_there_only_when_asked_for) {
  const server_metrics m;
  metrics_snapshot now;
  now.waiting = 3;
  now.running = 2;
  now.kv_positions = 512;
  now.kv_positions_max = 1'024;
  now.kv_block_tokens = 256;
  now.kv_blocks = 4;
  BOOST_TEST(render_metrics(m, now).find("vllm:") == std::string::npos);
  const auto text = render_metrics(m, now, {.milliseconds = false, .vllm = true});
  for (const char* line :
       {"vllm:num_requests_waiting 3", "vllm:num_requests_running 2", "vllm:kv_cache_usage_perc 0.5",
        "vllm:cache_config_info{block_size=\"256\",num_gpu_blocks=\"4\"} 1"}) {
    BOOST_TEST(has_line(text, line), line);
  }
}

BOOST_AUTO_TEST_CASE(adapters_are_there_only_with_room_for_them) {
  metrics_snapshot now;
  const metrics_extras both{.milliseconds = false, .vllm = true};
  BOOST_TEST(render_metrics(server_metrics(), now, both).find("lora") == std::string::npos);
  adapter_list list(2);
  list[0].name = "a";
  list[1].name = "b\"";
  list[1].traffic->users = 3;
  list[1].traffic->requests = 7;
  now.adapters = std::make_shared<const adapter_list>(list);
  now.adapters_max = 4;
  now.wall_seconds = 1'700'000'000;
  const auto text = render_metrics(server_metrics(), now, both);
  for (const char* line :
       {"worker_lora_adapters 2", "worker_lora_adapters_max 4",
        "worker_lora_adapter_requests{adapter=\"a\"} 0", "worker_lora_adapter_requests{adapter=\"b\\\"\"} 3",
        "worker_lora_adapter_requests_total{adapter=\"b\\\"\"} 7",
        "vllm:lora_requests_info{running_lora_adapters=\"b\\\"\",waiting_lora_adapters=\"\",max_lora=\"4\"} "
        "1.7e+09"}) {
    BOOST_TEST(has_line(text, line), line);
  }
  now.adapters = nullptr;
  const auto empty = render_metrics(server_metrics(), now);
  BOOST_TEST(has_line(empty, "worker_lora_adapters 0"));
  BOOST_TEST(empty.find("worker_lora_adapter_bytes") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(kv_pages_are_whole_ones_of_every_slot) {
  engine::worker_identity identity;
  identity.slots = 3;
  identity.context_tokens = 257;
  BOOST_TEST(identity.kv_blocks() == 6U);
  identity.context_tokens = 256;
  BOOST_TEST(identity.kv_blocks() == 3U);
  BOOST_TEST(metrics_snapshot().kv_usage() == 0.0);
}

BOOST_AUTO_TEST_CASE(jobs_without_output_leave_the_token_histograms_alone) {
  server_metrics m;
  m.count_job(outcome::disconnected, {}, 5);
  BOOST_TEST(m.first_token_seconds.count() == 0U);
  BOOST_TEST(m.duration_seconds.count() == 1U);
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(health)

health_facts facts(lifecycle state) {
  health_facts f;
  f.lifecycle = state;
  f.stall_threshold = std::chrono::seconds(30);
  return f;
}

BOOST_AUTO_TEST_CASE(states) {
  auto f = facts(lifecycle::ready);
  BOOST_TEST((shown_state(f) == lifecycle::ready));
  f.running = 1;
  BOOST_TEST((shown_state(f) == lifecycle::busy));
  f.draining = true;
  BOOST_TEST((shown_state(f) == lifecycle::draining));
  f.lifecycle = lifecycle::failed;
  BOOST_TEST((shown_state(f) == lifecycle::failed));
}

BOOST_AUTO_TEST_CASE(statuses_of_the_three_endpoints) {
  const engine::worker_identity identity;
  struct row {
    health_facts facts;
    unsigned health, live, ready;
  };
  auto busy = facts(lifecycle::ready);
  busy.running = 1;
  busy.step_age = std::chrono::seconds(30);
  auto stalled = busy;
  stalled.step_age = std::chrono::milliseconds(30'001);
  auto idle = stalled;
  idle.running = 0;
  auto degraded = facts(lifecycle::ready);
  degraded.cause = health_cause::job_out_of_memory;
  auto sick = facts(lifecycle::ready);
  sick.cause = health_cause::not_resident;
  auto draining = busy;
  draining.draining = true;
  const row rows[] = {{facts(lifecycle::starting), 200, 200, 503},
                      {facts(lifecycle::ready), 200, 200, 200},
                      {busy, 200, 200, 200},
                      {stalled, 503, 503, 503},
                      {idle, 200, 200, 200},
                      {degraded, 200, 200, 200},
                      {sick, 503, 200, 503},
                      {draining, 200, 200, 503},
                      {facts(lifecycle::draining), 200, 200, 503},
                      {facts(lifecycle::failed), 503, 200, 503}};
  for (const auto& r : rows) {
    BOOST_TEST(make_health_reply(r.facts, identity).status == r.health);
    BOOST_TEST(make_live_reply(r.facts).status == r.live);
    BOOST_TEST(make_ready_reply(r.facts).status == r.ready);
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_healthy_says_why) {
  const engine::worker_identity identity;
  BOOST_TEST(make_health_reply(facts(lifecycle::ready), identity).body.find("\"reason\":null") !=
             std::string::npos);
  for (const auto cause :
       {health_cause::holder_away, health_cause::job_out_of_memory, health_cause::handler_out_of_memory,
        health_cause::not_resident, health_cause::lost}) {
    auto f = facts(lifecycle::ready);
    f.cause = cause;
    const auto body = make_health_reply(f, identity).body;
    const bool degraded = cause == health_cause::job_out_of_memory || cause == health_cause::holder_away;
    BOOST_TEST(body.find(degraded ? "\"status\":\"degraded\"" : "\"status\":\"unhealthy\"") !=
               std::string::npos);
    BOOST_TEST(!health_reason(f).empty());
    BOOST_TEST(body.find(health_reason(f)) != std::string::npos, body);
  }
  BOOST_TEST(!health_reason(facts(lifecycle::failed)).empty());
  auto stalled = facts(lifecycle::ready);
  stalled.running = 1;
  stalled.step_age = std::chrono::minutes(1);
  BOOST_TEST(health_reason(stalled).find("30000 ms") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_digest_is_null_until_it_is_known_and_the_fingerprint_is_not) {
  engine::worker_identity identity;
  identity.system_fingerprint = "fp_0123456789abcdef";
  const auto early = make_health_reply(facts(lifecycle::ready), identity).body;
  BOOST_TEST(early.find("\"digest\":null") != std::string::npos, early);
  BOOST_TEST(early.find("\"system_fingerprint\":\"fp_0123456789abcdef\"") != std::string::npos, early);
  identity.digest = "sha256:00";
  const auto late = make_health_reply(facts(lifecycle::ready), identity).body;
  BOOST_TEST(late.find("\"digest\":\"sha256:00\"") != std::string::npos, late);
}

BOOST_AUTO_TEST_CASE(health_body) {
  engine::worker_identity identity;
  identity.model_name = "m";
  identity.backend = "host";
  auto f = facts(lifecycle::ready);
  f.vram_bytes = 369'098'752;
  f.kv_bytes = 12'345;
  f.adapters_bytes = 678;
  f.states_bytes = 910;
  f.adapters_max = 2;
  f.cache.hit_tokens = 77;
  f.cache.pages_used = 3;
  identity.kv = {engine::kv_type::q8_0, engine::kv_type::bf16};
  f.memory.pinned_bytes = 65'536;
  identity.gpu_name = "NVIDIA H200";
  identity.gpu_uuid = "GPU-1";
  f.uptime = std::chrono::seconds(3'600);
  const auto body = make_health_reply(f, identity).body;
  f.adapters_max = 0;
  BOOST_TEST(make_health_reply(f, identity).body.find("adapters") == std::string::npos);
  BOOST_TEST(body.find("window") == std::string::npos);
  f.cache.window_pages = 12;
  f.cache.window_pages_used = 5;
  f.cache.boundaries = 4;
  BOOST_TEST(make_health_reply(f, identity)
                 .body.find("\"kv_window_pages\":12,\"kv_window_pages_used\":5,\"prefix_boundaries\":4") !=
             std::string::npos);
  for (const char* part :
       {"\"status\":\"healthy\"", "\"model\":\"m\"", "\"vram_bytes\":369098752", "\"uptime_seconds\":3600",
        "\"backend\":\"host\"", "\"state\":\"ready\"", "\"resident\":false", "\"last_step_age_ms\":0",
        "\"pinned_bytes\":65536", "\"gpu_name\":\"NVIDIA H200\"", "\"gpu_uuid\":\"GPU-1\"",
        "\"kv_bytes\":12345", "\"adapters_bytes\":678", "\"states_bytes\":910", "\"cache_tokens_saved\":77",
        "\"kv_pages_used\":3", "\"kv_type_k\":\"q8_0\"", "\"kv_type_v\":\"bf16\""}) {
    BOOST_TEST(body.find(part) != std::string::npos, part);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
