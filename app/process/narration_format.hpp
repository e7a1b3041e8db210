// One narrated event as one line of text. Pure functions; narration.cpp runs them on the log's own
// thread. Source: M0-W-1900, WORK-3080, WORK-3082.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "engine/base/narration.hpp"

namespace orcd::app {

enum class log_format { json, console };

/// Fields that every line of this process carries.
struct narration_context {
  std::string worker_id;
  std::string model_ref;
  std::int64_t gpu_device = -1;  ///< -1 on the host backend
};

/// An event with its own copies of everything, so that it can wait in a queue.
struct narration_record {
  using value = std::variant<std::int64_t, std::uint64_t, double, bool, std::string>;
  std::chrono::system_clock::time_point at;
  engine::severity level = engine::severity::info;
  std::string event;
  std::string human;
  std::vector<std::pair<std::string, value>> fields;
};

/// A JSON object on one line, newline included: ts (RFC 3339, UTC, milliseconds), level, event,
/// worker_id, model_ref, gpu_device, the event's fields, message. Invalid UTF-8 becomes U+FFFD; NaN and
/// infinities become null. A key is written once: an event's field replaces the context's of the same
/// name, and cannot replace ts, level, event or message.
[[nodiscard]] std::string format_json(const narration_record& record, const narration_context& context);

/// "12:34:56.789 INFO  ready  Serving ...  port=8080" and newline, local context left out. Control
/// characters are shown escaped, so that no text can forge a line or move the cursor.
[[nodiscard]] std::string format_console(const narration_record& record, bool colour);

/// syslog(3) priority, 3 (error) to 7 (debug); for the "<N>" prefix that journald reads.
[[nodiscard]] int syslog_priority(engine::severity level) noexcept;
[[nodiscard]] std::string_view to_string(engine::severity level) noexcept;

}  // namespace orcd::app
