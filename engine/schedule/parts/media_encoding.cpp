#include "engine/schedule/parts/media_encoding.hpp"

#include <chrono>
#include <string>

namespace orcd::engine {

result<void> media_encoding::check(const job_request& request) {
  if (request.media.empty()) return {};
  const std::uint32_t blocks = accelerator_.media_blocks();
  if (blocks == 0)
    return error(errc::invalid_request, "this worker takes neither pictures nor sounds: it has no projector");
  if (!store_) store_.emplace(blocks);
  for (const job_medium& medium : request.media) {
    if (store_->can_hold(medium.rows)) continue;
    const bool sound = medium.content != nullptr && medium.content->sound() != nullptr;
    return error(errc::invalid_request, std::string(sound ? "a sound" : "a picture") + " has " +
                                            std::to_string(medium.rows) +
                                            " rows, more than there is room for: " +
                                            std::to_string(std::uint64_t{blocks} * media_block_rows));
  }
  return {};
}

void media_encoding::advance() {
  if (!store_) return;
  ask();
  if (under_way_ && under_way_.use_count() == 2) forget();  // of the store and of this: no job waits for it
  if (!under_way_) begin();
  if (!under_way_ || !encode_slice()) return;
  under_way_->ready = true;
  store_->note_encoded();
  under_way_.reset();
  content_.reset();
}

bool media_encoding::encode_slice() {
  const auto begun = std::chrono::steady_clock::now();
  const bool done = accelerator_.continue_medium();
  encode_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  return done;
}

media_counts media_encoding::counts() const noexcept {
  media_counts out = store_ ? store_->counts() : media_counts{};
  out.encode_seconds = encode_seconds_;
  return out;
}

void media_encoding::forget() noexcept {
  under_way_.reset();
  content_.reset();
  if (store_) store_->drop_unfinished();
}

void media_encoding::ask() {
  for (const auto& job : running_.jobs()) {
    if (!job || job->media.empty()) continue;
    const job_medium* const next = job->media.next(job->computed);
    job->media.keep(next);
    if (next == nullptr || job->media.held()) continue;
    if (auto rows = store_->take(next->digest, next->rows)) job->media.hold(*next, std::move(rows));
  }
}

void media_encoding::begin() {
  const sequence* first = nullptr;
  for (const auto& job : running_.jobs()) {
    if (!job || !job->media.held() || job->media.held()->ready) continue;
    if (first == nullptr || job->admission < first->admission) first = job.get();
  }
  if (first == nullptr) return;
  content_ = first->media.held_medium()->content;
  under_way_ = first->media.held();
  accelerator_.begin_medium(*content_, under_way_->blocks);
}

}  // namespace orcd::engine
