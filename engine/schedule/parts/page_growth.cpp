#include "engine/schedule/parts/page_growth.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "engine/base/prompt_tokens.hpp"

namespace orcd::engine {

namespace {

sequence& latest_of(const slot_table& running) noexcept {
  sequence* latest = nullptr;
  for (const auto& job : running.jobs()) {
    if (job && (latest == nullptr || job->arrival > latest->arrival)) latest = job.get();
  }
  ORCD_ENSURE(latest != nullptr);
  return *latest;
}

}  // namespace

page_growth::page_growth(accelerator& target, page_plan& pages, std::uint32_t slots)
    : accelerator_(target), pages_(pages) {
  growing_.reserve(slots + std::size_t{1});
}

/// How a job with these pages is expected to grow. Its last token may be the first of a page that it has yet
/// to get. `wait`: steps until its prompt is computed.
job_growth page_growth::growth_of(const sequence& job, std::uint32_t own_pages, std::size_t pages,
                                  std::uint32_t wait) const {
  const kv_cache& cache = *pages_.cache();
  const std::uint32_t size = cache.page_positions();
  const std::uint64_t has = std::uint64_t{pages} * size;
  const auto filled =
      static_cast<std::uint32_t>(std::min<std::uint64_t>({job.tokens.size(), job.positions_max(), has}));
  const std::uint64_t room = has - filled;
  const std::uint32_t further = forecast_.further(job.positions_max() - filled, room);
  return {own_pages, static_cast<std::uint32_t>(room / size), static_cast<std::uint32_t>(room % size),
          further > room ? cache.pages_for(static_cast<std::uint32_t>(further - room)) : 0, wait + further};
}

// Prompts share the steps' columns: a job may end no earlier than when all of them are computed, though it
// asked for one token, and others grow as long.
std::uint32_t page_growth::pages_to_leave(const sequence& next, const slot_table& running) {
  if (pages_.cache() == nullptr || running.running() == 0) return 0;
  const kv_cache& cache = *pages_.cache();
  std::uint64_t prompts = next.tokens.size();
  for (const auto& job : running.jobs()) prompts += job && job->missing() > 1 ? job->missing() : 0;
  const std::uint32_t of_step = prompt_tokens_beside(1, running.running() + 1, accelerator_.chunk_tokens());
  const auto wait = static_cast<std::uint32_t>(prompts / of_step + 1);
  growing_.clear();
  // What it will share is not known yet.
  growing_.push_back(growth_of(next, 0, cache.pages_for(pages_.positions_at_first(next)), wait));
  for (const auto& job : running.jobs()) {
    if (!job) continue;
    growing_.push_back(growth_of(*job, kv_cache::own_pages(job->lease), job->lease.pages.size(),
                                 job->missing() > 1 ? wait : 0));
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(
      further_pages_at_peak(growing_, cache.page_positions()), accelerator_.kv_pages().pages));
}

sequence* page_growth::give_pages(const slot_table& running) {
  if (pages_.cache() == nullptr) return nullptr;
  while (sequence* job = next_to_grow(running)) {
    if (pages_.extend(*job)) continue;
    note_want(running);
    return &latest_of(running);
  }
  return nullptr;
}

/// The oldest job that lacks a page for its next step.
sequence* page_growth::next_to_grow(const slot_table& running) const noexcept {
  sequence* oldest = nullptr;
  for (const auto& job : running.jobs()) {
    if (!job || pages_.cache()->pages_for(job->positions_next()) <= job->lease.pages.size()) continue;
    if (oldest == nullptr || job->arrival < oldest->arrival) oldest = job.get();
  }
  return oldest;
}

/// That there are too few pages says how much of what they asked for running jobs use.
void page_growth::note_want(const slot_table& running) noexcept {
  std::uint64_t tokens = 0;
  std::uint64_t most = 0;
  for (const auto& job : running.jobs()) {
    if (!job || job->pool) continue;
    tokens += job->tokens_out();
    most += job->request.max_tokens;
  }
  forecast_.ran_out(tokens, most);
}

void page_growth::give_pages_for_drafts(const slot_table& running) {
  if (pages_.cache() == nullptr) return;
  for (const auto& job : running.jobs()) {
    if (!job || !job->drafts.has_source() || !job->can_decode()) continue;
    const std::uint32_t wanted = std::min(job->positions_max(), job->position + 1 + drafts_max);
    while (pages_.cache()->pages_for(wanted) > job->lease.pages.size() && pages_.extend(*job)) {
    }
  }
}

void page_growth::note_end(const sequence& job) noexcept {
  if (!job.pool) forecast_.ended(job.tokens_out(), job.request.max_tokens);
}

}  // namespace orcd::engine
