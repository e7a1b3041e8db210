#include "app/pipe/conversation.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace orcd::app {

using engine::token_id;

token_id end_of_turn(std::span<const token_id> prompt, std::span<const token_id> eos) {
  for (std::size_t at = prompt.size(); at > 1; --at) {
    const auto found = std::find(eos.begin(), eos.end(), prompt[at - 1]);
    if (found != eos.end()) return *found;
  }
  return eos.front();
}

/// The K-th token of K becomes the EOS, so that who counts K lines and who waits for an EOS read the same.
token_id answer::generated(token_id token) {
  if (style_ == limit_style::end_token && limit_ > 0 && tokens_.size() + 1 == limit_) {
    return generated_end(end_);
  }
  tokens_.push_back(token);
  return token;
}

token_id answer::generated_end(token_id token) {
  ended_ = true;
  tokens_.push_back(token);
  return token;
}

std::optional<token_id> answer::over() {
  if (ended_ || style_ == limit_style::literal) return std::nullopt;
  ended_ = true;
  return end_;
}

engine::result<answer_plan> conversation::plan(const pipe_request& request) const {
  const bool goes_on = !request.keep;
  const std::uint64_t keep = request.keep.value_or(tokens_.size());
  if (keep > tokens_.size()) {
    return pipe_error("kv_position is " + std::to_string(keep) + "; it must be at most " +
                      std::to_string(tokens_.size()) + ", the tokens that there are");
  }
  const std::uint64_t size = keep + request.tokens.count;
  if (size == 0) return pipe_error("tokens is empty and kv_position 0; there must be a token to go on from");
  answer_plan out;
  out.keep = goes_on && style_ == limit_style::end_token ? 0 : keep;
  if (size > context_ || (goes_on && too_long_)) return out;
  out.fits = true;
  out.prompt.reserve(size);
  out.prompt.assign(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(keep));
  out.prompt.insert(out.prompt.end(), request.tokens.ids.begin(), request.tokens.ids.end());
  const auto room = static_cast<std::uint32_t>(context_ - size);
  out.tokens_max = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
  return out;
}

void conversation::cut(std::size_t keep) {
  tokens_.resize(std::min(keep, tokens_.size()));
  too_long_ = style_ == limit_style::end_token;
}

void conversation::become(std::vector<token_id> prompt, const answer& given) {
  too_long_ = false;
  tokens_ = std::move(prompt);
  tokens_.insert(tokens_.end(), given.tokens().begin(), given.tokens().end());
}

}  // namespace orcd::app
