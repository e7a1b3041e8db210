// A decode step as one kernel: one token of one sequence, or of each of two, goes through all layers in one
// cooperative launch. The host describes the step as a list of phases (a product, attention, a choice of
// experts, ...). One block a multiprocessor walks the list at its own pace and waits only for the values that
// it reads: blocks hand values to each other as flagged words in L2 (flagged.cuh), and there is no barrier of
// the grid. One warp of each block, the loader, copies the block's weights into shared memory ahead of all
// those waits, so that a phase usually finds its weights there before its input. kernels/README.md shows the
// roles of the warps, the timeline of a phase and what a hand-over is.
//
// Phases call the same device functions as the separate kernels of packed_matmul.hpp, paged_attention.hpp and
// experts.hpp and give the same bits.
//
// The slowest block sets the pace, because every other one needs its values. So in a step of one sequence the
// warps of a block divide a hand-over among themselves: some fold and store the outputs of a product while
// others load the input of the next phase and others unpack their first weights.
//
// The residual stream: each of its values is owned by the block that has its row of the output product. That
// block keeps the value in shared memory, adds to it, and publishes every new state to all blocks.
//
// Determinism class: run-to-run, launch-invariant. Bound: memory bandwidth; where weights are few, a way
// through L2 and the latency of what follows it, some 3 us a phase.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_args.hpp"
#include "kernels/decode_program/program_adapters.hpp"
#include "kernels/device/device_room.hpp"
#include "kernels/device/divider.hpp"
#include "kernels/layer/experts_args.hpp"
#include "kernels/product/packed_matmul_args.hpp"
#include "kernels/product/ternary_matrix.hpp"

namespace orcd::kernels {

/// Sequences of a step in one kernel, at most.
inline constexpr std::uint32_t program_sequences_max = 2;
/// Phases whose descriptions a block has in shared memory at a time, the current one included.
inline constexpr std::uint32_t phase_slots = 8;

enum class phase_kind : std::uint32_t { begin, matmul, attention, route, combine, ternary };

/// Which row of decode_program::shares applies to a phase. Products of experts are divided differently for
/// every number of sequences; their rows follow each other.
struct share_row {
  std::uint32_t first = 0;
  bool by_sequences = false;

  [[nodiscard]] ORCD_HD constexpr std::uint32_t of(std::uint32_t sequences) const {
    return by_sequences ? first + sequences - 1 : first;
  }
};

/// What a product of ternary matrices and int8 has beside what `matmul` says of it: there `w` has data, rows
/// and columns, `output` is store, add, or swiglu for a gate and an up matrix, and `out` is the residual
/// stream of what adds. The input is rounded as norm_to_int8.hpp defines.
struct ternary_phase {
  float code_scale[3] = {};            ///< of each matrix
  const float* norm_weight = nullptr;  ///< [cols]; null: the input is rounded without a norm
  float eps = 0.0F;
  bool from_halves = false;  ///< a word of the input has two f16 values; else one f32
  bool squared = false;      ///< of gate and up: max(g, 0)^2 u, else silu(g) u; the words are f32
  /// Norm weights of the next such product, which are brought into L2 meanwhile.
  const float* next_norm = nullptr;
  std::uint32_t next_cols = 0;
};

/// The description of a phase, the same for all blocks; of `matmul`, `attention`, `route`, `combine` and
/// `ternary` only what the kind needs is set. begin and combine set `matmul` to the output product, whose
/// rows they own.
struct alignas(16) decode_phase {
  phase_kind kind = phase_kind::matmul;
  const std::uint64_t* in = nullptr;  ///< device: flagged words that the phase before wrote
  std::uint64_t* out = nullptr;       ///< device: flagged words for the next phase; null: logits
  share_row later;                    ///< of the phase that takes over this one's slot, phase_slots later
  /// `columns`: for experts, how many one sequence uses; else 1.
  packed_matmul_args matmul;
  divider chunks{};  ///< of a row tile
  /// A worker's next chunk lies program_warps chunks further: so many row tiles and chunks.
  std::uint32_t stride_tiles = 0;
  std::uint32_t stride_chunks = 0;
  std::uint32_t groups = 0;           ///< of a row tile
  divider quads{};                    ///< by the 4-value groups of a row of the input
  std::uint32_t chunk_bytes[3] = {};  ///< of a whole chunk of each matrix
  std::uint32_t tile_bytes[3] = {};
  /// A product of experts: its weights are known once this phase has chosen. 0: not of experts, known
  /// always.
  std::uint32_t known_from = 0;
  /// The product begins with the choice of experts that `route` describes. Its input is there already: the
  /// router's phase left it in working memory.
  bool chooses = false;
  /// The product's input is the norm of the residual stream; `norm_round` counts the program's norms from 0.
  bool has_norm = false;
  std::uint32_t norm_round = 0;
  std::uint32_t route_round = 0;  ///< counts the program's routes from 0
  /// The input is that of the product before and is still in working memory (parts of an output head).
  bool keeps_input = false;
  /// A product in a step of one sequence: workers without an output to store go on to the next phase while
  /// others still store. Its sums then lie at `sums_at`, past its own input and that of the next phase.
  bool overlaps_next = false;
  std::uint32_t sums_at = 0;    ///< byte of the working memory
  bool attention_next = false;  ///< the next phase is attention
  /// If set: rows that are loaded into kept memory once this phase has used what is there. The norm's weights
  /// [width] are for phase `next_norm_at`, the router's rows for the next choice of experts.
  const float* next_norm = nullptr;
  std::uint32_t next_norm_at = 0;
  const float* next_router = nullptr;
  decode_attention_args attention;
  /// Steps of one sequence. Device, flagged words [heads][pages][padded width + 2]: partial results of
  /// attention, a page each, which the workers of a head tile hand to each other; each folds a slice of the
  /// values.
  std::uint64_t* partials = nullptr;
  std::uint32_t page_workers = 0;     ///< decode_page_workers() of one sequence
  std::uint32_t attention_items = 0;  ///< decode_items() of one sequence
  route_args route;
  combine_experts_args combine;
  ternary_phase ternary;
};

/// The first piece of attention that a block computes: the heads of one tile against one worker's pages.
struct attention_share {
  std::uint16_t sequence = 0;
  std::uint16_t kv_head = 0;
  std::uint16_t first_head = 0;
  std::uint16_t heads = 0;   ///< up to decode_heads; 0: the block has nothing to do
  std::uint16_t worker = 0;  ///< fits 16 bits: there are fewer workers than blocks

  [[nodiscard]] bool operator==(const attention_share&) const = default;
};
/// Pieces that attention is divided into: for each sequence and each tile of heads, one for every worker.
[[nodiscard]] ORCD_HD constexpr std::uint32_t decode_items(const attention_args_paged& a,
                                                           std::uint32_t sequences,
                                                           std::uint32_t page_workers) {
  return sequences * decode_head_tiles(a) * a.kv_heads * page_workers;
}
[[nodiscard]] ORCD_HD constexpr attention_share attention_share_of(const attention_args_paged& a,
                                                                   std::uint32_t sequences,
                                                                   std::uint32_t item) {
  const std::uint32_t group = a.heads / a.kv_heads;
  const std::uint32_t head_tiles = decode_head_tiles(a);
  const std::uint32_t tiles = head_tiles * a.kv_heads;
  const std::uint32_t tile = item % tiles;
  const std::uint32_t before = tile % head_tiles * decode_heads;
  const std::uint32_t kv_head = tile / head_tiles;
  attention_share share;
  share.sequence = static_cast<std::uint16_t>(item / tiles % sequences);
  share.kv_head = static_cast<std::uint16_t>(kv_head);
  share.first_head = static_cast<std::uint16_t>(kv_head * group + before);
  share.heads = static_cast<std::uint16_t>(group - before < decode_heads ? group - before : decode_heads);
  share.worker = static_cast<std::uint16_t>(item / (tiles * sequences));
  return share;
}

/// A block's share of a phase. Of a product: row tiles of each matrix, multiplied with all columns.
struct alignas(16) block_share {
  std::uint32_t first_tile[3] = {};
  std::uint32_t tiles[3] = {};
  std::uint32_t item = 0;    ///< of a product of experts: which of all sequences' choices, in order
  std::uint32_t chunks = 0;  ///< of all its tiles together
  attention_share attention;
  /// Among the product's blocks by their chunks, fewest first: A's rows are dealt in that order.
  std::uint16_t adapter_turn = 0;

  [[nodiscard]] bool operator==(const block_share&) const = default;
};

/// What a kernel must have code for to run a program.
struct program_needs {
  std::uint32_t formats = 0;  ///< of the weights: format_bit() of each
  bool experts = false;
  bool ternary = false;  ///< products of layers are those of ternary matrices and int8

  [[nodiscard]] constexpr bool within(const program_needs& others) const {
    return (formats & ~others.formats) == 0 && (others.experts || !experts) && ternary == others.ternary;
  }
};

// A block's shared memory, in this order:
//
//  header (20 KiB)   barriers, phase slots, the block's rows of the residual stream
//  working memory    of one phase: input, sums; attention's state
//  kept memory       across phases: a norm's weights, a router's row
//  rings             one a worker: weights that the loader has copied ahead

inline constexpr std::uint32_t program_blocks_max = 160;
inline constexpr std::uint32_t program_warps = 15;  ///< the workers, which multiply; warp 15 is the loader
/// What the device keeps for itself before the block's memory.
inline constexpr std::uint32_t program_reserved_bytes = 1024;
inline constexpr std::uint32_t program_header_bytes = 20 * 1024;

/// Bytes of one worker's ring, beside so much working and kept memory.
[[nodiscard]] ORCD_HD constexpr std::uint32_t stream_bytes(std::uint32_t work_and_kept_bytes) {
  const std::uint32_t used = program_header_bytes + work_and_kept_bytes;
  return used >= multiprocessor_shared_bytes
             ? 0
             : (multiprocessor_shared_bytes - used) / program_warps / 128 * 128;
}
/// Values of the residual stream that a block may own, of all sequences together.
inline constexpr std::uint32_t own_rows_max = 256;

/// Bytes of a row in f32: of the residual stream, of a norm's weights or of a router.
[[nodiscard]] ORCD_HD constexpr std::uint32_t row_bytes(std::uint32_t width) {
  return (width + 3) / 4 * 16;
}
/// Halves from one sequence's input to the next; not a multiple of the banks, so that lanes of different
/// sequences read without conflict.
[[nodiscard]] ORCD_HD constexpr std::uint32_t input_stride(std::uint32_t cols, std::uint32_t sequences) {
  return padded_cols(cols) + (sequences > 1 ? 8 : 0);
}
/// Working memory of a product's input: one padded row of f16 for each sequence. A block has one expert,
/// which is one sequence's.
[[nodiscard]] ORCD_HD constexpr std::uint32_t input_bytes(const packed_matmul_args& args,
                                                          std::uint32_t sequences) {
  const std::uint32_t n = args.experts != nullptr ? 1 : sequences;
  return n * input_stride(args.w[0].cols, n) * 2;
}
/// Rows of a tile of a ternary product. A tile is one chunk of the stream: in the layout of ternary_matrix
/// its rows follow each other.
inline constexpr std::uint32_t ternary_tile_rows = 4;
[[nodiscard]] ORCD_HD constexpr std::uint32_t ternary_tile_bytes(std::uint32_t cols) {
  return cols / 4 * ternary_tile_rows;
}
/// Columns of which integers lie together (program_int8.cuh).
inline constexpr std::uint32_t ternary_step_cols = 512;
/// What the warps that round a row leave for each other and for those that store outputs.
struct int8_scratch {
  float squares[32];
  float largest[8];
  std::int32_t sums[8];
  float scale;
};
/// Working memory of its input: the integers, and the scratch.
[[nodiscard]] ORCD_HD constexpr std::uint32_t ternary_input_bytes(std::uint32_t cols) {
  return (cols + ternary_step_cols - 1) / ternary_step_cols * ternary_step_cols + 256;
}
static_assert(sizeof(int8_scratch) <= 256);
/// Working memory of its sums, one for each row.
[[nodiscard]] ORCD_HD constexpr std::uint32_t ternary_sums_bytes(std::uint32_t tiles) {
  return tiles * ternary_tile_rows * static_cast<std::uint32_t>(sizeof(std::int32_t));
}
/// Working memory of a product's sums: 16 for each chunk of the block and each sequence.
[[nodiscard]] ORCD_HD constexpr std::uint32_t sums_bytes(const packed_matmul_args& args,
                                                         std::uint32_t sequences, std::uint32_t chunks) {
  const std::uint32_t n = args.experts != nullptr ? 1 : sequences;
  return n * chunks * tile_rows * static_cast<std::uint32_t>(sizeof(float));
}
/// Warps that sum the squares of a row.
inline constexpr std::uint32_t norm_units = 8;
/// Working memory of a product that begins with a norm: its input, and the f32 rows that are normed, which
/// lie where the sums will go.
[[nodiscard]] ORCD_HD constexpr std::uint32_t norm_work_bytes(std::uint32_t width, std::uint32_t sequences) {
  return sequences * (input_stride(width, sequences) * 2 + row_bytes(width));
}
/// Working memory of attention that nobody writes before its input has come. The input itself lies behind it,
/// and only that must keep clear of the sums of the product before.
[[nodiscard]] ORCD_HD constexpr std::uint32_t attention_page_bytes(std::uint32_t padded_width) {
  return 256 * padded_width + 6208;
}
/// Working memory of attention.
[[nodiscard]] ORCD_HD constexpr std::uint32_t attention_work_bytes(std::uint32_t padded_width) {
  return 276 * padded_width + program_warps * 512 + 8576;
}
/// Working memory of a choice of experts: the norm in f16 of the sequence whose expert the block will
/// multiply, which is the input of that product; and the norms in f32.
[[nodiscard]] ORCD_HD constexpr std::uint32_t route_work_bytes(std::uint32_t width, std::uint32_t sequences) {
  return padded_cols(width) * 2 + sequences * row_bytes(width);
}
/// Kept memory: a norm's weights, a router's row if there is one, and for several sequences the cosines and
/// sines of each one's position.
[[nodiscard]] ORCD_HD constexpr std::uint32_t kept_bytes(std::uint32_t width, bool routes,
                                                         std::uint32_t sequences) {
  constexpr std::uint32_t cos_sin_bytes = narrow_head_max / 2 * 8;
  return ((routes ? 2 : 1) * row_bytes(width) + (sequences > 1 ? sequences * cos_sin_bytes : 0) + 127) / 128 *
         128;
}

/// Times of a phase in one block, in ns: begun, input there, all chunks multiplied, first outputs stored. The
/// next phase may have begun before the last of them.
inline constexpr std::uint32_t phase_stamps = 4;

/// What a launch leaves for the next.
struct program_state {
  std::uint32_t left = 0;  ///< blocks that have reached the end; zero between launches
  /// Of all launches so far; the words that phase p of this launch writes carry phases + p + 1.
  std::uint32_t phases = 0;
};
/// Past so many phases all words are cleared and counting begins anew. Otherwise a word that no step has
/// written for long (a second sequence's) would look newer than the current phase when the 32-bit count
/// wraps.
inline constexpr std::uint32_t counted_phases_max = 1U << 30U;

struct decode_program {
  const decode_phase* phases = nullptr;  ///< device, [count]
  const block_share* shares = nullptr;   ///< device, [rows][blocks]
  const step_token* steps = nullptr;     ///< device, [sequences]
  share_row first_shares[phase_slots];   ///< of the first phase_slots phases
  std::uint32_t sequences = 1;
  std::uint32_t count = 0;
  std::uint32_t blocks = 0;
  std::uint32_t width = 0;  ///< of the residual stream
  std::uint32_t padded_head_width = 0;
  std::uint32_t experts = 0;  ///< of a router; 0: none
  program_needs needs;
  std::uint32_t work_bytes = 0;
  std::uint32_t attention_at = 0;  ///< one sequence: byte of working memory where attention begins
  std::uint32_t kept_bytes = 0;    ///< kept_bytes()
  program_state* state = nullptr;  ///< device; zero at first
  std::uint64_t* words = nullptr;  ///< device; all flagged words, zero at first
  std::uint64_t word_count = 0;
  /// Device, [blocks][count][phase_stamps]; null: not taken. Of one sequence, only where kernels are built
  /// with ORCD_PROGRAM_STAMPS, as they are with benchmarks.
  std::uint64_t* stamps = nullptr;
  // Of a program with an output head, for one sequence: the kernel leaves the key of the token with the
  // highest logit.
  const float* logits = nullptr;          ///< device, [vocab]
  const std::uint32_t* banned = nullptr;  ///< device, as sample_args::banned
  unsigned long long* key = nullptr;      ///< device, as sample_args::keys; or null
  program_adapters adapters;              ///< of a program of one sequence
};

}  // namespace orcd::kernels
