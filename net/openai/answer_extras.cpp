#include "net/openai/answer_extras.hpp"

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

void append_timings(std::string& out, const job_timing& timing) {
  out += ",\"timings\":";
  json_object json(out);
  const std::uint32_t cached = timing.cached.value_or(0);
  if (timing.cached) json.integer("cache_n", cached);
  add_half(json, "prompt", timing.prompt_tokens - cached, timing.prompt_ms);
  add_half(json, "predicted", timing.tokens, timing.output_ms);
  json.close();
}

void append_progress(std::string& out, std::uint32_t total, std::uint32_t processed, double elapsed_ms) {
  out += ",\"prompt_progress\":";
  json_object json(out);
  json.integer("total", total)
      .integer("cache", 0)
      .integer("processed", processed)
      .integer("time_ms", static_cast<std::uint64_t>(elapsed_ms));
  json.close();
}

}  // namespace orcd::net
