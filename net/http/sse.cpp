#include "net/http/sse.hpp"

#include <array>
#include <cstdio>
#include <ctime>

#include "net/http/respond.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

/// The figures of a job, which `metrics` and `end` both have.
void append_stats(json_object& json, const engine::job_stats& stats) {
  json.integer("tokens_in", stats.tokens_in)
      .integer("tokens_out", stats.tokens_out)
      .integer("tokens_cached", stats.tokens_cached)
      .number("queue_ms", stats.queue_ms)
      .number("prefill_ms", stats.prefill_ms)
      .number("first_token_ms", stats.first_token_ms)
      .number("decode_time_ms", stats.decode_ms, 0)
      .number("decode_ms", stats.decode_ms);
  // The first token belongs to the prefill: n tokens are n-1 decode steps.
  const bool measured = stats.decode_ms > 0 && stats.tokens_out > 1;
  json.number("tokens_per_second", measured ? (stats.tokens_out - 1) * 1000.0 / stats.decode_ms : 0.0);
  if (stats.resumed > 0) json.integer("resumed", stats.resumed);
}

}  // namespace

std::string_view to_string(engine::finish_reason reason) noexcept {
  return reason == engine::finish_reason::stop ? "stop" : "length";
}

void append_started(std::string& out, const started_fields& fields) {
  out += "event: started\ndata: ";
  json_object json(out);
  json.text("job_id", fields.job_id)
      .text("model", fields.model)
      .text("started_at", to_rfc3339(fields.started_at))
      .integer("seed", fields.seed)
      .integer("tokens_in", fields.tokens_in)
      .number("queue_ms", fields.queue_ms);
  json.close();
  out += "\n\n";
}

void append_token(std::string& out, std::string_view text, std::uint32_t index) {
  const std::string number = std::to_string(index);
  out += "event: token\nid: ";
  out += number;
  out += "\ndata: {\"t\":";
  append_json_string(out, text);
  out += ",\"i\":";
  out += number;
  out += "}\n\n";
}

void append_metrics(std::string& out, const engine::job_stats& stats) {
  out += "event: metrics\ndata: ";
  json_object json(out);
  append_stats(json, stats);
  json.close();
  out += "\n\n";
}

void append_end(std::string& out, engine::finish_reason reason, const engine::job_stats& stats) {
  out += "event: end\ndata: ";
  json_object json(out);
  json.text("finish_reason", to_string(reason));
  append_stats(json, stats);
  json.close();
  out += "\n\n";
}

void append_error(std::string& out, const engine::error& failure) {
  out += "event: error\ndata: ";
  json_object json(out);
  json.text("code", engine::code_name(failure.code))
      .text("message", failure.message)
      .boolean("retriable", engine::is_retriable(failure));
  json.close();
  out += "\n\n";
}

void append_error_object(std::string& out, const engine::error& failure) {
  out += "data: " + make_error_reply(failure).body + "\n\n";
}

void append_event(std::string& out, std::string_view name, std::string_view data) {
  out += "event: ";
  out += name;
  out += "\ndata: ";
  out += data;
  out += "\n\n";
}

void append_keep_alive(std::string& out) {
  out += ": keep-alive\n\n";
}

std::string to_rfc3339(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto days = std::chrono::floor<std::chrono::days>(ms);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss clock(ms - days);
  std::array<char, 48> text;
  std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02d:%02d:%02d.%03dZ",
                static_cast<int>(date.year()), static_cast<unsigned>(date.month()),
                static_cast<unsigned>(date.day()), static_cast<int>(clock.hours().count()),
                static_cast<int>(clock.minutes().count()), static_cast<int>(clock.seconds().count()),
                static_cast<int>(clock.subseconds().count()));
  return text.data();
}

}  // namespace orcd::net
