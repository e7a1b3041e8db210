#include "engine/schedule/lookup_drafts.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace orcd::engine {
namespace {

constexpr std::uint32_t match_min = 2;
constexpr std::uint32_t match_max = 32;        // beyond it no match is better
constexpr std::uint32_t positions_tried = 16;  // of a bucket
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
  for (auto position = static_cast<std::uint32_t>(before_.size()); position < end; ++position) {
    std::uint32_t before = 0;
    if (position != 0 && position != predicted()) {
      std::uint32_t& latest = latest_[bucket_of(at(tokens, position - 1), at(tokens, position))];
      before = std::exchange(latest, position + 1);
    }
    before_.push_back(before);
  }
  return before_.size() == all;
}

/// How many of the last tokens stand before and at this position, too.
std::uint32_t lookup_drafts::match_at(std::span<const token_id> tokens,
                                      std::uint32_t position) const noexcept {
  const std::uint32_t from = position < predicted() ? 0 : predicted();
  const auto most =
      std::min<std::uint32_t>({match_max, position + 1 - from, static_cast<std::uint32_t>(tokens.size())});
  std::uint32_t match = 0;
  while (match < most && at(tokens, position - match) == tokens[tokens.size() - 1 - match]) ++match;
  return match;
}

/// So little output that it cannot be found in the prediction, but does not contradict it.
bool lookup_drafts::begins_as_predicted(std::span<const token_id> tokens) const noexcept {
  if (prediction_.empty() || tokens.size() < output_from_) return false;
  const auto output = tokens.subspan(output_from_);
  return output.size() < match_min && output.size() < prediction_.size() &&
         std::equal(output.begin(), output.end(), prediction_.begin());
}

/// What stands after a position. After the sequence's end its own guess goes on, so that a repeated text is
/// repeated again.
void lookup_drafts::copy_from(std::span<const token_id> tokens, std::uint32_t position, std::uint32_t most,
                              std::vector<token_id>& guess) const {
  const auto all = static_cast<std::uint32_t>(prediction_.size() + tokens.size());
  const std::uint32_t end = position < predicted() ? predicted() : all + most;
  for (std::uint32_t next = position + 1; next < end && guess.size() < most; ++next) {
    const token_id token = next < all ? at(tokens, next) : guess[next - all];
    if (token == media_token) return;  // no token can be
    guess.push_back(token);
  }
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
  for (std::uint32_t tried = 0; next != 0 && tried < positions_tried; ++tried) {
    const std::uint32_t position = next - 1;
    const std::uint32_t match = match_at(tokens, position);
    // Nothing follows the end of the prediction.
    if (match > longest && position + 1 != predicted()) {
      longest = match;
      found = position;
    }
    if (longest == match_max) break;
    next = before_[position];
  }
  if (longest < match_min) return 0;
  copy_from(tokens, found, most, guess);
  return kind_of(longest);
}

std::unique_ptr<draft_source> make_lookup_drafts(job_request& job, std::uint32_t prompt_tokens) {
  return std::make_unique<lookup_drafts>(std::exchange(job.prediction, {}), prompt_tokens);
}

}  // namespace orcd::engine
