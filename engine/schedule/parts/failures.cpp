#include "engine/schedule/parts/failures.hpp"

#include <variant>

namespace orcd::engine {

void failures::lose(const error& why) {
  lost_ = why;
  if (hooks_.on_lost) hooks_.on_lost(why);
}

void failures::run_short(const error& why, std::uint64_t admissions) {
  short_at_ = admissions;
  if (hooks_.on_degraded) hooks_.on_degraded(why);
}

void failures::note_end(const sequence& job, const job_outcome& how) {
  const bool well = std::holds_alternative<finish_reason>(how.value);
  if (!short_at_ || !well || job.admission <= *short_at_) return;
  short_at_.reset();
  if (hooks_.on_recovered) hooks_.on_recovered();
}

sequence* failures::choose_victim(const launched_steps& launched, const slot_table& running) noexcept {
  sequence* victim = nullptr;
  if (launched.empty()) {
    for (const auto& job : running.jobs()) {
      if (job && (victim == nullptr || job->admission > victim->admission)) victim = job.get();
    }
    return victim;
  }
  std::size_t longest = 0;
  for (const auto& step : launched.all()) {
    for (const auto& part : step) {
      sequence* job = running.find(part.slot, part.admission);
      if (job == nullptr) continue;
      const bool worse = victim == nullptr || part.tokens > longest ||
                         (part.tokens == longest && job->admission > victim->admission);
      if (!worse) continue;
      victim = job;
      longest = part.tokens;
    }
  }
  return victim;
}

}  // namespace orcd::engine
