#include "app/service/service_manager.hpp"

#include <systemd/sd-daemon.h>

namespace orcd::app {
namespace {

/// Without line ends: in sd_notify's format they would begin another assignment.
std::string one_line(std::string_view text) {
  std::string out(text);
  for (auto& c : out) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return out;
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
  send_("STATUS=" + one_line(what) + "\nEXTEND_TIMEOUT_USEC=" + microseconds_text(patience));
}

void service_manager::ready(std::string_view status) {
  send_("READY=1\nSTATUS=" + one_line(status));
}

void service_manager::stopping(std::chrono::seconds limit) {
  constexpr std::chrono::seconds teardown{10};  // more than the worker allows itself (signal_policy.hpp)
  send_("STOPPING=1\nSTATUS=Draining\nEXTEND_TIMEOUT_USEC=" + microseconds_text(limit + teardown));
}

void service_manager::failed(std::string_view status) {
  send_("STATUS=Failed: " + one_line(status));
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
