// Tokens that the host chooses, because their requests have samplers that the device has not, or tell what
// was drawn from (engine::sampling_params::needs_logits): waits for the pass, copies the row's logits and
// calls engine::choose(). Such a step is not launched ahead of anything: launch() returns when its tokens are
// chosen. GPU thread only.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/sampling/sampling_params.hpp"
#include "gpu/cuda/cuda_resources.hpp"

namespace orcd::gpu {

/// A row of a pass's logits.
struct sampled_row {
  engine::slot_id slot{};
  std::uint32_t result = 0;                       ///< its place among the step's results
  const engine::sample_request* asked = nullptr;  ///< null: the device chooses
};

class cuda_logit_choice {
 public:
  /// `entries`: steps under way at most.
  cuda_logit_choice(std::uint32_t vocab, std::uint32_t context, std::uint32_t entries,
                    std::span<const engine::token_id> banned);

  /// Forgets what was chosen in the entry.
  void begin(std::uint32_t entry) { chosen_[entry].clear(); }
  /// Chooses for the rows that ask for it, from the logits of the pass that `stream` ends with. False when
  /// interrupted. Throws accelerator_failure.
  [[nodiscard]] bool choose(std::span<const sampled_row> rows, const float* logits, std::uint32_t entry,
                            const engine::interrupt_flag& interrupt, cudaStream_t stream);
  /// Puts what was chosen in the place of what the device has chosen.
  void replace(std::uint32_t entry, std::span<engine::sampled_token> results) const;

 private:
  std::vector<float> logits_;  ///< of a row
  std::vector<engine::token_id> banned_;
  engine::sampling_workspace work_;
  event done_;
  std::vector<std::vector<std::pair<std::uint32_t, engine::sampled_token>>> chosen_;  ///< by entry
};

}  // namespace orcd::gpu
