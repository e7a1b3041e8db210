#include "engine/schedule/parts/draft_offers.hpp"

#include <algorithm>
#include <new>

namespace orcd::engine {

draft_offers::draft_offers(accelerator& target, const scheduler_config& config, page_plan& pages,
                           job_ends& ends)
    : accelerator_(target), config_(config), pages_(pages), ends_(ends), offers_(config.slots) {}

bool draft_offers::enabled() const noexcept {
  return config_.drafts.enabled && accelerator_.draft_tokens() > 0;
}

void draft_offers::choose(const slot_table& running) {
  const std::uint32_t room = accelerator_.draft_tokens();
  std::uint32_t decoding = 0;
  bool some = false;
  bool adapted = false;
  for (std::uint32_t slot = 0; slot < running.size(); ++slot) {
    const auto& job = running[slot];
    offers_[slot] = {};
    if (!job || (!job->can_decode() && !job->drafts.in_step())) continue;
    ++decoding;
    adapted = adapted || !job->request.adapters.empty();
    if (!job->drafts.has_source() || !job->can_decode()) continue;
    offers_[slot] = offer_of(*job);
    some = some || offers_[slot].most > 0;
  }
  if (!some) return;
  // Costs were measured without adapters, beside which steps are other kernels.
  if (adapted && config_.drafts.always == 0) {
    std::fill(offers_.begin(), offers_.end(), draft_offer{});
  } else if (config_.drafts.always > 0) {
    take_drafts(offers_, room);
  } else {
    choose_drafts(offers_, decoding, room, [&](std::uint32_t n) { return accelerator_.step_cost(n); });
  }
}

/// What a sequence may bring; nothing where it has ended or goes on without drafts, for lack of memory.
draft_offer draft_offers::offer_of(sequence& job) {
  draft_offer offer;
  try {
    offer = job.offer_drafts(config_.end_of_generation);
  } catch (const std::bad_alloc&) {
    // A constraint that was asked for its mask may be half changed.
    if (job.request.constraint) {
      ends_.end_out_of_memory(job.slot);
      return {};
    }
    job.drafts.drop_source();
  }
  offer.most =
      std::min({offer.most, drafts_max, accelerator_.chunk_tokens() - 1, pages_.room_for_drafts(job)});
  if (config_.drafts.always > 0) offer.most = std::min(offer.most, config_.drafts.always);
  return offer;
}

bool draft_offers::most_wait(const slot_table& running) const noexcept {
  std::uint32_t waiting = 0;
  std::uint32_t ready = 0;
  for (const auto& job : running.jobs()) {
    if (!job) continue;
    if (waits(*job)) {
      ++waiting;
    } else if (job->can_decode() || job->can_score()) {
      ++ready;
    }
  }
  return waiting > 0 && waiting >= ready;
}

}  // namespace orcd::engine
