#include "engine/schedule/media_store.hpp"

#include <algorithm>

#include "engine/accelerator.hpp"

namespace orcd::engine {

media_store::media_store(std::uint32_t blocks) : size_(blocks) {
  free_.reserve(blocks);
  for (std::uint32_t i = blocks; i > 0; --i) free_.push_back(i - 1);
}

std::uint32_t media_store::blocks_of(std::uint32_t rows) noexcept {
  return rows / media_block_rows + (rows % media_block_rows == 0 ? 0 : 1);
}

bool media_store::can_hold(std::uint32_t rows) const noexcept {
  return blocks_of(rows) <= size_;
}

std::shared_ptr<stored_medium> media_store::take(std::string_view digest, std::uint32_t rows) {
  const auto known = std::find_if(media_.begin(), media_.end(),
                                  [&](const auto& medium) { return medium->digest == digest; });
  if (known != media_.end()) {
    media_.splice(media_.end(), media_, known);
    counts_.hits += media_.back()->ready ? 1U : 0U;
    return media_.back();
  }
  const std::uint32_t blocks = blocks_of(rows);
  if (!make_room(blocks)) return nullptr;
  auto made = std::make_shared<stored_medium>();
  made->digest = digest;
  made->blocks.assign(free_.end() - static_cast<std::ptrdiff_t>(blocks), free_.end());
  media_.push_back(std::move(made));
  free_.resize(free_.size() - blocks);
  return media_.back();
}

/// Nothing goes unless enough does.
bool media_store::make_room(std::uint32_t blocks) {
  std::size_t idle = free_.size();
  for (const auto& medium : media_) idle += medium.use_count() == 1 ? medium->blocks.size() : 0;
  if (idle < blocks) return false;
  for (auto at = media_.begin(); free_.size() < blocks;) {
    if (at->use_count() > 1) {
      ++at;
      continue;
    }
    free_.insert(free_.end(), (*at)->blocks.begin(), (*at)->blocks.end());
    at = media_.erase(at);
  }
  return true;
}

void media_store::drop_unfinished() noexcept {
  for (auto at = media_.begin(); at != media_.end();) {
    if ((*at)->ready || at->use_count() > 1) {
      ++at;
      continue;
    }
    free_.insert(free_.end(), (*at)->blocks.begin(), (*at)->blocks.end());
    at = media_.erase(at);
  }
}

media_counts media_store::counts() const noexcept {
  media_counts out = counts_;
  out.stored = static_cast<std::uint32_t>(media_.size());
  return out;
}

}  // namespace orcd::engine
