#include "gpu/cuda/cuda_logit_choice.hpp"

#include <algorithm>

#include "engine/base/ensure.hpp"
#include "engine/sampling/choice.hpp"
#include "engine/sampling/logprobs.hpp"
#include "gpu/plan/step_wait.hpp"

namespace orcd::gpu {

cuda_logit_choice::cuda_logit_choice(std::uint32_t vocab, std::uint32_t context, std::uint32_t entries,
                                     std::span<const engine::token_id> banned)
    : logits_(vocab), banned_(banned.begin(), banned.end()), done_(make_event()), chosen_(entries) {
  work_.reserve(vocab, context);
}

bool cuda_logit_choice::choose(std::span<const sampled_row> rows, const float* logits, std::uint32_t entry,
                               const engine::interrupt_flag& interrupt, cudaStream_t stream) {
  const auto asks = [](const sampled_row& row) { return row.asked != nullptr; };
  if (std::none_of(rows.begin(), rows.end(), asks)) return true;
  ORCD_CUDA(cudaEventRecord(done_.get(), stream));
  const auto done = [&] {
    const cudaError_t status = cudaEventQuery(done_.get());
    if (status == cudaErrorNotReady) return false;
    ORCD_CUDA(status);
    return true;
  };
  // A failure of the device shows in the event.
  if (!wait_for_pass(
          done, [] {}, interrupt))
    return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!asks(rows[i])) continue;
    const engine::sample_request& asked = *rows[i].asked;
    ORCD_CUDA(cudaMemcpyAsync(logits_.data(), logits + i * logits_.size(), logits_.size() * sizeof(float),
                              cudaMemcpyDeviceToHost, stream));
    ORCD_CUDA(cudaStreamSynchronize(stream));
    engine::sampled_token out{rows[i].slot};
    out.token = engine::choose(logits_, *asked.params, asked.seen, banned_, asked.draw, work_, asked.allowed);
    if (asked.logprobs && out.token >= 0) {
      out.logprobs = engine::logprobs_after(logits_, *asked.params, work_, out.token, asked.top_logprobs);
    }
    chosen_[entry].emplace_back(rows[i].result, out);
  }
  return true;
}

void cuda_logit_choice::replace(std::uint32_t entry, std::span<engine::sampled_token> results) const {
  for (const auto& [place, token] : chosen_[entry]) {
    ORCD_ENSURE(place < results.size() && results[place].slot == token.slot);
    results[place] = token;
  }
}

}  // namespace orcd::gpu
