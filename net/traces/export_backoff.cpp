#include "net/traces/export_backoff.hpp"

#include <algorithm>

namespace orcd::net {

using std::chrono::milliseconds;

void export_backoff::succeed() {
  delay_ = limits_.first;
  attempts_ = 0;
}

void export_backoff::begin_other_spans() {
  attempts_ = 0;
}

backoff_step export_backoff::fail(std::optional<milliseconds> asked, double random) {
  backoff_step out;
  const auto part = std::chrono::duration<double, std::milli>(delay_) * (1.0 - random / 2.0);
  out.wait = std::chrono::duration_cast<milliseconds>(part);
  if (asked) out.wait = std::clamp(*asked, out.wait, std::max(out.wait, limits_.asked_max));
  delay_ = std::min(delay_ * 2, limits_.max);
  out.give_up = ++attempts_ >= limits_.attempts;
  return out;
}

}  // namespace orcd::net
