#include "net/completion/answer_extras.hpp"

#include <chrono>

#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

/// One of the two halves of the timings; a rate that would divide by 0 is 0.
void add_half(json_object& json, const std::string& name, std::uint32_t tokens, double ms) {
  json.integer(name + "_n", tokens)
      .number(name + "_ms", ms)
      .number(name + "_per_token_ms", tokens > 0 ? ms / tokens : 0.0)
      .number(name + "_per_second", ms > 0 ? tokens * 1000.0 / ms : 0.0);
}

double ms_between(engine::steady_time from, engine::steady_time to) noexcept {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

}  // namespace

void append_ids(std::string& out, std::string_view name, std::span<const engine::token_id> ids) {
  out += ",\"";
  out += name;
  out += "\":[";
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    out += std::to_string(ids[i]);
  }
  out += ']';
}

job_timing timing_of(const engine::job_stats& stats) noexcept {
  return {stats.tokens_in, stats.tokens_cached, stats.prefill_ms, stats.tokens_out, stats.decode_ms};
}

void running_timing::started() {
  begun_ = now();
}

void running_timing::note_output() {
  if (!first_) first_ = now();
}

std::optional<job_timing> running_timing::at(std::uint32_t tokens) const {
  if (!first_) return std::nullopt;
  return job_timing{prompt_tokens_, cached_, ms_between(begun_, *first_), tokens, ms_between(*first_, now())};
}

std::string render_timings(const job_timing& timing) {
  std::string out;
  json_object json(out);
  json.integer("cache_n", timing.cached);
  add_half(json, "prompt", timing.prompt_tokens - timing.cached, timing.prompt_ms);
  add_half(json, "predicted", timing.tokens, timing.output_ms);
  json.close();
  return out;
}

void append_timings(std::string& out, const job_timing& timing) {
  out += ",\"timings\":" + render_timings(timing);
}

void append_progress(std::string& out, std::uint32_t total, const prompt_progress& progress) {
  out += ",\"prompt_progress\":";
  json_object json(out);
  json.integer("total", total)
      .integer("cache", progress.cached)
      .integer("processed", progress.processed)
      .integer("time_ms", progress.elapsed_ms);
  json.close();
}

}  // namespace orcd::net
