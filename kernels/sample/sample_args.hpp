// What the sampler is given and what it gives: a request for each column, the state of each slot, the
// results. kernels/sample/sample.hpp says what is done with them. Shared by host and device code; no CUDA
// types.
#pragma once

#include <cstdint>

#include "kernels/device/host_device.hpp"

namespace orcd::kernels {

inline constexpr std::uint32_t sample_blocks = 8;           ///< of a column's cluster
inline constexpr std::uint32_t sample_vocab_max = 344'064;  ///< whose scores fit the cluster's memory
inline constexpr std::uint32_t sample_window_max = 4'096;   ///< look-back tokens
inline constexpr std::uint32_t sample_columns_max = 256;
inline constexpr std::uint32_t top_logprobs_max = 20;
inline constexpr std::uint32_t sample_biases_max = 1'024;  ///< of a slot

/// What one column asks for: the fields of engine::sampling_params, and what is done with the token.
struct sample_request {
  float temperature = 0.0F;  ///< 0 = argmax
  std::uint32_t top_k = 0;
  float top_p = 1.0F;
  float min_p = 0.0F;
  float repetition_penalty = 1.0F;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::uint32_t window = 0;     ///< look-back tokens; 0 = no penalties
  std::uint32_t draw_high = 0;  ///< floor(draw * 2^53)
  std::uint32_t draw_low = 0;
  std::uint32_t logprobs = 0;     ///< 0: none; else 1 + number of most likely tokens to list
  std::uint32_t remaining = 1;    ///< tokens the sequence may still get, this one included
  std::uint32_t stop_at_end = 1;  ///< end-of-generation tokens end the sequence
  std::uint32_t result = 0;       ///< index into sample_args::results
  std::uint32_t masked = 0;       ///< n > 0: only what row n - 1 of sample_args::allowed has may be chosen
  std::uint32_t biases = 0;       ///< entries of the slot in sample_args::biases that are added
};

/// Whether the token is simply the one with the highest logit that is not banned, and nothing else is asked
/// for.
[[nodiscard]] ORCD_HD constexpr bool is_plain(const sample_request& r) {
  return r.temperature == 0.0F && r.window == 0 && r.logprobs == 0 && r.masked == 0 && r.biases == 0;
}

/// Is added to a token's logit; ids outside the vocabulary are ignored.
struct sample_bias {
  std::int32_t token = -1;
  float bias = 0.0F;
};

/// A column of a step that samples, as the device holds it.
struct sample_column {
  sample_request request;
  std::int32_t slot = 0;
  std::int32_t position = 0;  ///< of the last token fed; the look-back window ends there
  std::int32_t active = 0;    ///< 0: the sequence ended before this step, and the result is not used
};

/// The state of a slot's sequence.
struct slot_state {
  std::int32_t token = 0;     ///< the last one fed
  std::int32_t position = 0;  ///< its position
  std::int32_t next = -1;     ///< the token chosen after it
  std::int32_t ended = 0;     ///< 1: `next` is its last token, or there is none
};

/// The result of a column; the host may poll `ticket`. log P(t) = gap(t) - log(total * 2^-40), where a gap is
/// the distance of a raw logit from the highest one.
struct sample_result {
  std::uint64_t total = 0;  ///< sum of the raw softmax's weights; 0 unless asked for
  float gap = 0.0F;         ///< of the chosen token; 0 unless asked for
  std::int32_t token = -1;  ///< -1: nothing could be chosen, or the column was not active
  std::uint32_t listed = 0;
  std::uint32_t active = 0;
  std::uint32_t ticket = 0;  ///< sample_args::ticket, written last
  std::uint32_t reserved = 0;
  std::int32_t ids[top_logprobs_max] = {};  ///< the most likely by raw logit, then by lower id
  float gaps[top_logprobs_max] = {};
};

struct sample_args {
  const float* logits = nullptr;  ///< [columns][vocab]
  std::uint32_t vocab = 0;
  std::uint32_t columns = 0;
  const sample_column* asked = nullptr;  ///< [columns]
  /// [columns], zeroed: the highest logit that is not banned as ordered bits << 32 | ~id, if an earlier
  /// kernel has computed it; or null. Plain greedy columns then need not read their logits.
  unsigned long long* keys = nullptr;
  bool all_plain = false;                 ///< every request is_plain(), and there are keys
  const std::uint32_t* banned = nullptr;  ///< bit per id, [(vocab + 31) / 32]; or null
  /// [rows][(vocab + 31) / 32] bit per id that may be chosen; or null
  const std::uint32_t* allowed = nullptr;
  const sample_bias* biases = nullptr;    ///< [slots][sample_biases_max], a slot's tokens distinct; or null
  const std::uint32_t* ends = nullptr;    ///< like `banned`, tokens that end a sequence; or null
  const std::int32_t* history = nullptr;  ///< [slots][history_stride], token by position; null: no windows
  std::uint32_t history_stride = 0;
  slot_state* slots = nullptr;            ///< [slots], or null
  const std::uint32_t* ticket = nullptr;  ///< of this step, non-zero
  sample_result* results = nullptr;       ///< device memory, or pinned host memory
};

}  // namespace orcd::kernels
