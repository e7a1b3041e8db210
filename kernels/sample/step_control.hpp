// How a step begins on the device: where each token belongs, tokens that the device chose itself fed back
// without the host, and what each column asks of the sampler. Requests travel as kernel parameters, so that a
// step can be enqueued while the one before it runs and no host buffer has to outlive the call.
//
// A sequence that has ended is computed again at its last position with its last token: the same bits are
// written to the same place, and its result says that it was not active.
#pragma once

#include <cstdint>

#include "kernels/device/step_token.hpp"
#include "kernels/sample/sample_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

/// What the begin kernels write, all in device memory.
struct step_target {
  step_token* steps = nullptr;      ///< [columns], input of the forward pass
  sample_column* asked = nullptr;   ///< [columns that sample]
  slot_state* slots = nullptr;      ///< [slots]
  std::int32_t* history = nullptr;  ///< [slots][history_stride] token by position
  std::uint32_t history_stride = 0;
  std::int32_t* sample_rows = nullptr;  ///< [columns that sample]: those columns
  std::uint32_t* ticket = nullptr;      ///< of the step
  step_turn* turns = nullptr;           ///< [columns], of a model that turns heads by three positions
  seen_block* blocks = nullptr;         ///< [columns], of a model with rows that see each other
};

/// One token of a decode step: a sequence's only one, or one of several in a row, none of which is fed back.
/// After these, the slot's next token comes from the host.
struct decode_sequence {
  std::int32_t slot = 0;
  std::int32_t token = -1;    ///< -1: the token that the device chose last in this slot, at the next position
  std::int32_t position = 0;  ///< ignored when the token is fed back
  std::int32_t shift = 0;     ///< by how much what turns heads is less than the position
  sample_request sample;
};

inline constexpr std::uint32_t decode_sequences_max = 32;  ///< a launch; a kernel's parameters are 4 KiB
inline constexpr std::uint32_t chunk_tokens_max = 896;     ///< a launch

struct begin_decode_args {
  step_target to;
  std::uint32_t first = 0;  ///< column of sequences[0]
  std::uint32_t row = 0;    ///< of it among the columns that sample
  std::uint32_t count = 0;
  std::uint32_t ticket = 0;
  decode_sequence sequences[decode_sequences_max];
};
[[nodiscard]] int launch_begin_decode(const begin_decode_args& args, CUstream_st* stream);

/// A piece of a prompt chunk: consecutive positions of one slot. A token below 0 stands for the row of a
/// medium; the forward pass is told of token 0 there.
struct begin_chunk_args {
  step_target to;
  std::uint32_t first = 0;  ///< column of tokens[0]
  std::uint32_t count = 0;
  std::int32_t slot = 0;
  std::int32_t position = 0;  ///< of tokens[0]
  std::int32_t shift = 0;     ///< as decode_sequence has it
  std::uint32_t ticket = 0;
  std::uint32_t samples = 0;  ///< 1: the last of these tokens ends the chunk, and the next token is wanted
  std::uint32_t row = 0;      ///< then: of it among the columns that sample
  sample_request sample;
  std::int32_t tokens[chunk_tokens_max];
};
[[nodiscard]] int launch_begin_chunk(const begin_chunk_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
