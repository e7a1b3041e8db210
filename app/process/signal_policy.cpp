#include "app/process/signal_policy.hpp"

namespace orcd::app {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds opening_limit{1'000};
/// The time after a second signal: half a second for ending the streams, the rest for the teardown.
constexpr milliseconds impatient_limit{3'000};
/// The time after a third signal, or after a second one while there are no streams: for the last line of the
/// log.
constexpr milliseconds now_limit{250};

}  // namespace

signal_limit signal_policy::on_signal(exit_code forced) noexcept {
  ++signals_;
  if (signals_ > 2) return {now_limit, forced};
  if (signals_ == 2) return {phase_ == run_phase::serving ? impatient_limit : now_limit, forced};
  switch (phase_) {
    case run_phase::opening: return {opening_limit, exit_code::ok};
    case run_phase::loading: return {abandon_limit, exit_code::ok};
    case run_phase::serving: break;
  }
  // The io thread ends the drain in time; this limit is for an io thread that hangs.
  return {drain_ + farewell_limit + teardown_limit, forced};
}

}  // namespace orcd::app
