#include "app/pipe/conversation.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace orcd::app {

using engine::token_id;

/// The K-th token of K becomes the EOS, so that who counts K lines and who waits for an EOS read the same.
token_id answer::generated(token_id token) {
  if (style_ == limit_style::end_token && limit_ > 0 && tokens_.size() + 1 == limit_) {
    ended_ = true;
    return end_;
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
  const std::uint64_t keep = request.keep.value_or(tokens_.size());
  if (keep > tokens_.size()) {
    return pipe_error("kv_position is " + std::to_string(keep) + "; it must be at most " +
                      std::to_string(tokens_.size()) + ", the tokens that there are");
  }
  const std::uint64_t size = keep + request.tokens.count;
  if (size == 0) return pipe_error("tokens is empty and kv_position 0; there must be a token to go on from");
  answer_plan out;
  out.keep = keep;
  if (size > context_) return out;
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
}

void conversation::become(std::vector<token_id> prompt, const answer& given) {
  tokens_ = std::move(prompt);
  tokens_.insert(tokens_.end(), given.tokens().begin(), given.tokens().end());
}

}  // namespace orcd::app
