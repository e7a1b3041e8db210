#include "app/process/shutdown.hpp"

namespace orcd::app {

shutdown_action shutdown_fsm::stop_with(exit_code code) noexcept {
  if (phase_ == phase::stopping || phase_ == phase::done) {
    if (code_ == exit_code::ok) code_ = code;
    return shutdown_action::none;
  }
  code_ = code;
  phase_ = phase::stopping;
  return shutdown_action::stop_server;
}

shutdown_action shutdown_fsm::on_stop_asked(bool signal, exit_code forced) noexcept {
  if (signal) ++signals_;
  const bool impatient = signal && signals_ >= 2;
  switch (phase_) {
    case phase::starting: phase_ = phase::stopping; return shutdown_action::cancel_start;
    case phase::serving: phase_ = phase::draining; return shutdown_action::begin_drain;
    case phase::draining: return impatient ? stop_with(forced) : shutdown_action::none;
    case phase::stopping:
    case phase::done: break;
  }
  // The streams are being ended already: one more signal than the one that started this ends the process at
  // once.
  if (!impatient) return shutdown_action::none;
  if (signals_ == 2 && code_ != exit_code::ok) return shutdown_action::none;
  if (code_ == exit_code::ok) code_ = forced;
  return shutdown_action::exit_now;
}

shutdown_action shutdown_fsm::on(shutdown_event event) noexcept {
  switch (event) {
    case shutdown_event::loaded:
      if (phase_ == phase::starting) phase_ = phase::serving;
      return shutdown_action::none;
    case shutdown_event::asleep:
      if (phase_ == phase::serving) phase_ = phase::starting;
      return shutdown_action::none;
    case shutdown_event::sigint: return on_stop_asked(true, exit_code::interrupted);
    case shutdown_event::sigterm: return on_stop_asked(true, exit_code::terminated);
    case shutdown_event::request: return on_stop_asked(false, exit_code::ok);
    case shutdown_event::start_failed:
    case shutdown_event::fatal: return stop_with(failure_code_);
    case shutdown_event::idle:
    case shutdown_event::drain_timeout:
      return phase_ == phase::draining ? stop_with(drained_code_) : shutdown_action::none;
    case shutdown_event::exhausted:
      drained_code_ = exit_code::failure;
      if (phase_ != phase::serving) return shutdown_action::none;
      phase_ = phase::draining;
      return shutdown_action::begin_drain;
    case shutdown_event::stopped:
      if (phase_ != phase::stopping) return shutdown_action::none;
      phase_ = phase::done;
      return shutdown_action::finish;
  }
  return shutdown_action::none;
}

}  // namespace orcd::app
