// Recurrent layers on the device: delta nets, Mamba-2 and short convolutions, for any number of sequences in
// a step. Definitions as in kernels/host/recurrent.hpp, with the device's own order of sums, which depends on
// nothing but the widths: every product and sum is rounded where it is written, and a row gets the same ones
// alone, in a prompt's chunk and as a draft.
// Determinism class: run-to-run, batch-invariant. Bound: memory with few rows of a sequence, f32 arithmetic
// with many. Error: that of f32 sums.
#pragma once

#include <cstdint>

#include "kernels/device/step_token.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

/// Positions of a chunk; the same number as recurrent_chunk (kernels/host/recurrent.hpp).
inline constexpr std::uint32_t chunk_rows = 8;
/// The longest keys of a head; a multiple of four.
inline constexpr std::uint32_t device_key_length_max = 256;

/// Neighbouring columns of a step that are one sequence's, at positions in a row.
struct device_run {
  std::int32_t column = 0;  ///< the first
  std::int32_t count = 0;
  std::int32_t position = 0;  ///< of the first
  std::int32_t slot = 0;
};

/// That what a layer has kept of the tokens before `position` is to be copied to a page of states when the
/// column before it has been computed. Position 0: nothing is.
struct wanted_state {
  std::int32_t position = 0;
  std::int32_t page = 0;
};

/// What a layer keeps, of all slots and in all pages: places in floats from a slot's beginning. Of a state
/// the last boundaries are kept, of everything else the last rows, by position.
struct kept_memory {
  float* slots = nullptr;
  std::uint64_t slot_stride = 0;
  std::uint64_t states = 0;   ///< [state_count][value heads][value_length][key_length]; a multiple of four
  std::uint64_t keys = 0;     ///< [rows][key heads][key_length]; a multiple of four
  std::uint64_t updates = 0;  ///< [rows][value heads][value_length]
  std::uint64_t decays = 0;   ///< [rows][value heads], of each row alone
  std::uint64_t inputs = 0;   ///< [rows][channels]
  std::uint32_t state_count = 0;
  std::uint32_t rows = 0;          ///< a chunk's for each state
  std::uint64_t state_values = 0;  ///< of a state
  float* pages = nullptr;          ///< the layer's part of page 0: a state, then rows of the convolution
  std::uint64_t page_stride = 0;
};

/// What all kernels of a pass have in common.
struct recurrent_pass {
  const step_token* steps = nullptr;     ///< [columns]
  const wanted_state* wanted = nullptr;  ///< [columns]
  const device_run* runs = nullptr;      ///< [runs_max], as launch_find_runs() leaves them
  const std::int32_t* run_count = nullptr;
  std::uint32_t columns = 0;
  std::uint32_t runs_max = 0;
  /// No run is longer than a step with drafts: kernels store what is kept as they go. Otherwise some may be
  /// longer than what is kept, and launch_keep_rows() stores it behind them.
  bool short_runs = false;
};

struct find_runs_args {
  const step_token* steps = nullptr;
  std::uint32_t columns = 0;
  device_run* runs = nullptr;
  std::int32_t* run_count = nullptr;
};
[[nodiscard]] int launch_find_runs(const find_runs_args& args, CUstream_st* stream);

/// Of a layer with a state: its convolution with SiLU, a delta net's unit queries and keys, and the gates.
struct prepare_mix_args {
  recurrent_pass pass;
  kept_memory kept;
  float* mixed = nullptr;  ///< [columns] rows of `stride`
  std::uint32_t stride = 0;
  // Places in such a row.
  std::uint32_t in = 0;                             ///< of the convolution
  std::uint32_t convolved = 0;                      ///< out
  std::uint32_t queries = 0, keys = 0, values = 0;  ///< in what comes out, from `convolved` on
  std::uint32_t beta = 0, decay = 0;                ///< of a delta net; Mamba-2's dt is `decay`
  const float* taps = nullptr;                      ///< [channels][tap_count]
  const float* conv_bias = nullptr;                 ///< [channels] or null
  const float* rate = nullptr;                      ///< [value heads]
  const float* decay_bias = nullptr;
  float* factors = nullptr;  ///< out, [columns][value heads]
  float* decays = nullptr;   ///< out, likewise
  std::uint32_t tap_count = 0;
  std::uint32_t channels = 0;
  std::uint32_t key_heads = 0;
  std::uint32_t value_heads = 0;
  std::uint32_t key_length = 0;
  std::uint32_t value_length = 0;
  std::uint32_t joint = 0;  ///< recurrent_gate_args::joint
  float eps = 0.0F;
  bool delta_net = false;
};
[[nodiscard]] int launch_prepare_mix(const prepare_mix_args& args, CUstream_st* stream);

struct scan_args {
  recurrent_pass pass;
  kept_memory kept;
  const float* queries = nullptr;  ///< [columns] rows of `stride`: [key heads][key_length]
  const float* keys = nullptr;
  const float* values = nullptr;   ///< [value heads][value_length]
  float* out = nullptr;            ///< likewise
  std::uint32_t stride = 0;        ///< a multiple of four, as are the first three
  const float* factors = nullptr;  ///< [columns][value heads]
  const float* decays = nullptr;
  const float* skip = nullptr;  ///< [value heads] or null
  std::uint32_t key_heads = 0;
  std::uint32_t value_heads = 0;
  std::uint32_t key_length = 0;
  std::uint32_t value_length = 0;
  bool in_turn = false;
  bool delta_net = false;
};
[[nodiscard]] int launch_scan(const scan_args& args, CUstream_st* stream);

/// Rows of a step that become kept ones: the last of each run, as many as are kept. With `factor` their
/// products.
struct keep_rows_args {
  recurrent_pass pass;
  kept_memory kept;
  struct part {
    const float* rows = nullptr;  ///< [columns] rows of `stride`
    const float* factor = nullptr;
    std::uint32_t stride = 0;
    std::uint32_t width = 0;
    std::uint64_t to = 0;  ///< kept_memory::keys and the like
  } parts[2];
  std::uint32_t part_count = 1;
};
[[nodiscard]] int launch_keep_rows(const keep_rows_args& args, CUstream_st* stream);

/// out = f16 of norm(x) * silu(gate), a delta net's, or norm(x * silu(gate)): RMS norms of `groups` parts of
/// a row. Padding up to the next multiple of 64 is written as zeros.
struct finish_mix_args {
  const float* x = nullptr;  ///< [columns] rows of `stride`
  const float* gate = nullptr;
  std::uint32_t stride = 0;
  const float* weight = nullptr;    ///< [width / groups], or [width] with weight_stride
  std::uint32_t weight_stride = 0;  ///< 0, or width / groups
  std::uint32_t width = 0;
  std::uint32_t groups = 0;
  std::uint32_t columns = 0;
  float eps = 0.0F;
  bool gate_first = false;  ///< Mamba-2
  __half* out = nullptr;    ///< [columns][out_stride]
  std::uint32_t out_stride = 0;
};
[[nodiscard]] int launch_finish_mix(const finish_mix_args& args, CUstream_st* stream);

/// out = f16(c * conv(b * x)) of rows b|c|x. Padding as above.
struct short_conv_args {
  recurrent_pass pass;
  kept_memory kept;
  const float* mixed = nullptr;  ///< [columns] rows of `stride`
  std::uint32_t stride = 0;
  std::uint32_t channels = 0;
  const float* taps = nullptr;  ///< [channels][tap_count]
  const float* bias = nullptr;  ///< [channels] or null
  std::uint32_t tap_count = 0;
  __half* out = nullptr;  ///< [columns][out_stride]
  std::uint32_t out_stride = 0;
};
[[nodiscard]] int launch_short_conv(const short_conv_args& args, CUstream_st* stream);

/// Between a slot and a page, of one layer: its state at a position, and the rows before that.
struct copy_state_args {
  kept_memory kept;
  std::uint32_t channels = 0;
  std::uint32_t back = 0;  ///< rows of the convolution
  std::uint32_t slot = 0;
  std::uint32_t position = 0;
  std::uint32_t page = 0;
  bool to_page = false;
};
[[nodiscard]] int launch_copy_state(const copy_state_args& args, CUstream_st* stream);

/// x[m][h] *= sigmoid(gate[m][h]), halves in place: of attention whose queries have gates.
struct gate_heads_args {
  __half* x = nullptr;  ///< [columns][x_stride], heads of `width`
  std::uint32_t x_stride = 0;
  const float* gates = nullptr;  ///< [columns][gate_stride], of head h from h * 2 * width + width on
  std::uint32_t gate_stride = 0;
  std::uint32_t heads = 0;
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
};
[[nodiscard]] int launch_gate_heads(const gate_heads_args& args, CUstream_st* stream);

/// Queries from between their gates to rows that begin with queries.
struct take_queries_args {
  const float* gated = nullptr;  ///< [columns][2 * heads * width]: a head's query, then its gate
  float* qkv = nullptr;          ///< [columns][stride]
  std::uint32_t stride = 0;
  std::uint32_t heads = 0;
  std::uint32_t width = 0;
  std::uint32_t columns = 0;
};
[[nodiscard]] int launch_take_queries(const take_queries_args& args, CUstream_st* stream);

/// out = f16(max(x, 0)^2), saturated; padding up to the next multiple of 64 is written as zeros.
struct squared_relu_args {
  const float* x = nullptr;  ///< [rows][width]
  std::uint32_t width = 0;
  std::uint32_t rows = 0;
  __half* out = nullptr;  ///< [rows][out_stride]
  std::uint32_t out_stride = 0;
};
[[nodiscard]] int launch_squared_relu(const squared_relu_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
