// Server-sent events: one function per event, each appends complete frames to a string. Pure. `id` is the
// token index, so that a client knows how far it came. Source: M0-W-1310..1312, M0-W-1510, WORK-3050..3052,
// 3091.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/schedule/job.hpp"

namespace orcd::net {

struct started_fields {
  std::string_view job_id;
  std::string_view model;
  std::chrono::system_clock::time_point started_at;
  std::uint64_t seed = 0;
  std::uint32_t tokens_in = 0;
  double queue_ms = 0;
};

void append_started(std::string& out, const started_fields& fields);
/// `text` is valid UTF-8 and not empty; `index` is the newest output token whose bytes it holds.
void append_token(std::string& out, std::string_view text, std::uint32_t index);
void append_metrics(std::string& out, const engine::job_stats& stats);
void append_end(std::string& out, engine::finish_reason reason, const engine::job_stats& stats);
void append_error(std::string& out, const engine::error& failure);
/// The error as OpenAI's API has it in a stream: the body of a refusal in an event without a name.
void append_error_object(std::string& out, const engine::error& failure);
/// An event of any name; `data` is a line.
void append_event(std::string& out, std::string_view name, std::string_view data);
/// A comment that clients skip; keeps proxies from closing a silent stream.
void append_keep_alive(std::string& out);

/// "stop" or "length".
[[nodiscard]] std::string_view to_string(engine::finish_reason reason) noexcept;

/// "2026-01-02T03:04:05.678Z".
[[nodiscard]] std::string to_rfc3339(std::chrono::system_clock::time_point time);

}  // namespace orcd::net
