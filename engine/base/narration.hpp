// Narration: what the worker says about itself, as events with fields. engine/ and net/ only call this
// interface; app/ writes the lines (JSON or console) with Boost.Log. Never a prompt, a token or a header
// value: a prompt is named by prompt_digest(). Thread-safe. Source: M0-W-1900, WORK-3080, 3082, 3122.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace orcd::engine {

enum class severity { debug, info, warning, error, critical };

struct narration_field {
  std::string_view key;
  std::variant<std::int64_t, std::uint64_t, double, bool, std::string_view> value;
};

class narrator {
 public:
  virtual ~narrator() = default;
  /// `event` is a stable snake_case name ("execute_start"); `human` a sentence for people. Common
  /// context (worker_id, model_ref, gpu_device) is added by the implementation.
  virtual void narrate(severity level, std::string_view event, std::string_view human,
                       std::initializer_list<narration_field> fields = {}) noexcept = 0;
};

/// "sha256:<hex>" of a prompt, for logs (M0-W-1902).
[[nodiscard]] std::string prompt_digest(std::string_view prompt);

}  // namespace orcd::engine
