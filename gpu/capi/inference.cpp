#include "gpu/capi/inference.hpp"

#include <algorithm>
#include <utility>

namespace orcd::gpu {

using engine::errc;
using engine::error;
using engine::result;

inference::inference(std::string job_id, std::shared_ptr<const engine::served_model> model,
                     std::uint32_t max_tokens, engine::steady_time give_up)
    : job_id_(std::move(job_id)),
      model_(std::move(model)),
      give_up_(give_up),
      stream_(*model_->tokenizer, {}) {
  tokens_.reserve(max_tokens);
}

void inference::offer(const engine::job_event& event) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (const auto* token = std::get_if<engine::token_event>(&event)) {
      tokens_.push_back(token->token);
    } else if (const auto* failed = std::get_if<engine::error_event>(&event)) {
      failure_ = failed->failure;
      over_ = true;
    } else if (std::holds_alternative<engine::end_event>(event)) {
      over_ = true;
    }
  }
  changed_.notify_all();
}

result<std::optional<engine::token_id>> inference::wait_for_token() {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_until(lock, give_up_, [this] { return read_ < tokens_.size() || over_; })) {
    return error(errc::inference_timeout, "the GPU did not answer in time");
  }
  if (read_ < tokens_.size()) return std::optional(tokens_[read_++]);
  if (failure_) return *failure_;
  return std::optional<engine::token_id>();
}

inference::piece inference::take(std::size_t bytes_max) {
  std::size_t cut = std::min(bytes_max, pending_.size());
  // Back to the first byte of a character.
  while (cut < pending_.size() && (static_cast<unsigned char>(pending_[cut]) & 0xC0U) == 0x80U) --cut;
  piece out{pending_.substr(0, cut), index_};
  pending_.erase(0, cut);
  return out;
}

result<std::optional<inference::piece>> inference::next(std::size_t bytes_max) {
  while (pending_.empty()) {
    if (finished_) return std::optional<piece>();
    const auto token = wait_for_token();
    if (!token) return token.error();
    if (*token) {
      pending_ = stream_.push(**token).text;
      index_ = static_cast<std::uint32_t>(read_ - 1);
    } else {
      pending_ = stream_.finish();
      finished_ = true;
    }
  }
  return std::optional(take(bytes_max));
}

}  // namespace orcd::gpu
