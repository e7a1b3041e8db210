#include "app/service/service_manager.hpp"

#include <systemd/sd-daemon.h>

#include "app/console/one_line.hpp"

namespace orcd::app {
namespace {

/// On one line: in sd_notify's format the next one would be another assignment.
std::string status_text(std::string_view text) {
  return "STATUS=" + one_line(text);
}

std::string microseconds_text(std::chrono::microseconds value) {
  return std::to_string(value.count());
}

}  // namespace

service_manager::service_manager() : send_([](const std::string& state) { sd_notify(0, state.c_str()); }) {}

void service_manager::loading(unsigned percent) {
  waiting("Loading the model: " + std::to_string(percent) + " %");
}

void service_manager::waiting(std::string_view what) {
  // A start that makes no progress for this long has failed; one that does may take as long as it needs.
  constexpr std::chrono::seconds patience{120};
  send_(status_text(what) + "\nEXTEND_TIMEOUT_USEC=" + microseconds_text(patience));
}

void service_manager::ready(std::string_view status) {
  send_("READY=1\n" + status_text(status));
}

void service_manager::stopping(std::chrono::seconds limit) {
  constexpr std::chrono::seconds teardown{10};  // more than the worker allows itself (signal_policy.hpp)
  send_("STOPPING=1\nSTATUS=Draining\nEXTEND_TIMEOUT_USEC=" + microseconds_text(limit + teardown));
}

void service_manager::failed(std::string_view status) {
  send_(status_text("Failed: " + std::string(status)));
}

void service_manager::feed_watchdog() {
  send_("WATCHDOG=1");
}

std::optional<std::chrono::microseconds> service_manager::watchdog_interval() {
  std::uint64_t interval = 0;
  if (sd_watchdog_enabled(0, &interval) <= 0 || interval == 0) return std::nullopt;
  return std::chrono::microseconds(interval);
}

progress_watchdog::decision progress_watchdog::tick(time now, std::uint64_t answered) noexcept {
  if (answered >= sent_) {
    ++sent_;
    sent_at_ = now;
    return {true, true};
  }
  return {now - sent_at_ < limit_, false};
}

}  // namespace orcd::app
