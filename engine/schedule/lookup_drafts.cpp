#include "engine/schedule/lookup_drafts.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace orcd::engine {
namespace {

constexpr std::uint32_t match_min = 2;
constexpr std::uint32_t match_max = 32;     // beyond it no match is better
constexpr std::uint32_t places_tried = 16;  // of a bucket
constexpr std::uint32_t indexed_a_call = 8192;
constexpr std::size_t buckets_min = 256;
constexpr std::size_t buckets_max = 65'536;

std::uint32_t kind_of(std::uint32_t match) {
  return match < 3 ? 0 : match < 4 ? 1 : match < 8 ? 2 : 3;
}

}  // namespace

lookup_drafts::lookup_drafts(std::vector<token_id> prediction, std::uint32_t output_from)
    : prediction_(std::move(prediction)),
      output_from_(output_from),
      latest_(std::bit_ceil(std::clamp(prediction_.size() + output_from, buckets_min, buckets_max)), 0) {}

std::uint32_t lookup_drafts::bucket_of(token_id first, token_id second) const noexcept {
  const std::uint64_t pair = static_cast<std::uint64_t>(static_cast<std::uint32_t>(first)) << 32U |
                             static_cast<std::uint32_t>(second);
  return static_cast<std::uint32_t>(pair * 0x9E3779B97F4A7C15ULL >> 40U) &
         static_cast<std::uint32_t>(latest_.size() - 1);
}

/// Notes the pairs that are new; false while there are more than one call may take.
bool lookup_drafts::index(std::span<const token_id> tokens) {
  const std::size_t all = prediction_.size() + tokens.size();
  const std::size_t end = std::min(all, before_.size() + indexed_a_call);
  for (auto place = static_cast<std::uint32_t>(before_.size()); place < end; ++place) {
    std::uint32_t before = 0;
    if (place != 0 && place != predicted()) {
      std::uint32_t& latest = latest_[bucket_of(at(tokens, place - 1), at(tokens, place))];
      before = std::exchange(latest, place + 1);
    }
    before_.push_back(before);
  }
  return before_.size() == all;
}

/// How many of the last tokens stand before and at this place, too.
std::uint32_t lookup_drafts::match_at(std::span<const token_id> tokens, std::uint32_t place) const noexcept {
  const std::uint32_t from = place < predicted() ? 0 : predicted();
  const auto most =
      std::min<std::uint32_t>({match_max, place + 1 - from, static_cast<std::uint32_t>(tokens.size())});
  std::uint32_t match = 0;
  while (match < most && at(tokens, place - match) == tokens[tokens.size() - 1 - match]) ++match;
  return match;
}

/// So little output that it cannot be found in the prediction, but does not contradict it.
bool lookup_drafts::begins_as_predicted(std::span<const token_id> tokens) const noexcept {
  if (prediction_.empty() || tokens.size() < output_from_) return false;
  const auto output = tokens.subspan(output_from_);
  return output.size() < match_min && output.size() < prediction_.size() &&
         std::equal(output.begin(), output.end(), prediction_.begin());
}

/// What stands behind a place. Behind the sequence's end its own guess goes on, so that a repeated text is
/// repeated again.
void lookup_drafts::copy_from(std::span<const token_id> tokens, std::uint32_t place, std::uint32_t most,
                              std::vector<token_id>& guess) const {
  const auto all = static_cast<std::uint32_t>(prediction_.size() + tokens.size());
  const std::uint32_t end = place < predicted() ? predicted() : all + most;
  for (std::uint32_t next = place + 1; next < end && guess.size() < most; ++next)
    guess.push_back(next < all ? at(tokens, next) : guess[next - all]);
}

std::uint32_t lookup_drafts::guess(std::span<const token_id> tokens, std::uint32_t most,
                                   std::vector<token_id>& guess) {
  guess.clear();
  if (!index(tokens) || most == 0) return 0;
  if (begins_as_predicted(tokens)) {
    const auto known = static_cast<std::uint32_t>(tokens.size()) - output_from_;
    const auto count = std::min(most, predicted() - known);
    const auto first = prediction_.begin() + known;
    guess.assign(first, first + count);
    return kind_of(match_max);
  }
  if (tokens.size() < match_min) return 0;
  std::uint32_t longest = match_min - 1;
  std::uint32_t found = 0;
  // The latest pair is the one that is looked for.
  std::uint32_t next = before_.back();
  for (std::uint32_t tried = 0; next != 0 && tried < places_tried; ++tried) {
    const std::uint32_t place = next - 1;
    const std::uint32_t match = match_at(tokens, place);
    // Nothing follows the end of the prediction.
    if (match > longest && place + 1 != predicted()) {
      longest = match;
      found = place;
    }
    if (longest == match_max) break;
    next = before_[place];
  }
  if (longest < match_min) return 0;
  copy_from(tokens, found, most, guess);
  return kind_of(longest);
}

}  // namespace orcd::engine
