// One token of one sequence, or of each of a few, through all layers by one kernel: a list of phases that
// every block walks through at its own pace, waiting only for the values that it needs (flagged.cuh). One
// block a multiprocessor; one of its warps streams the weights of the others through shared memory, ahead of
// every such wait: what a phase reads is there before what it is multiplied with. Phases use the same
// functions as the launches of packed_matmul.hpp, paged_attention.hpp and experts.hpp and give the same bits.
//
// What all wait for is the block that comes last. So its workers share a hand-over of a step of one column:
// while some fold and store a product's outputs, others ask for the input of the next phase, others fetch
// what its outputs need and unpack their first weights, and the loader fetches later phases.
//
// The residual stream: a value belongs to the block whose rows of the output product it is in; that block
// keeps it in shared memory and hands every new state of it to all. Determinism class: run-to-run,
// launch-invariant. Bound: memory bandwidth; a way through L2 and the latency of what follows, some 3 us a
// phase, where weights are few. Source: design 3, issue 4, performance notes 3.5.
#pragma once

#include <cstdint>

#include "kernels/device_room.hpp"
#include "kernels/divider.hpp"
#include "kernels/experts.hpp"
#include "kernels/packed_matmul.hpp"
#include "kernels/paged_attention.hpp"

namespace orcd::kernels {

/// Columns (sequences) of a step in one kernel, at most.
inline constexpr std::uint32_t program_columns_max = 2;
/// Phases that a block knows ahead, the current one included.
inline constexpr std::uint32_t phase_slots = 8;

enum class phase_kind : std::uint32_t { begin, matmul, attention, route, combine };

/// Which row of decode_program::shares a phase has; experts are dealt anew for every number of columns, in
/// rows that follow each other.
struct share_row {
  std::uint32_t first = 0;
  bool by_columns = false;

  [[nodiscard]] ORCD_HD constexpr std::uint32_t of(std::uint32_t columns) const {
    return by_columns ? first + columns - 1 : first;
  }
};

/// What all blocks know of a phase; only the part of its kind is set.
/// begin, combine: `matmul` is the output product, for its rows.
struct alignas(16) decode_phase {
  phase_kind kind = phase_kind::matmul;
  const std::uint64_t* in = nullptr;  ///< device, flagged words of the phase before
  std::uint64_t* out = nullptr;       ///< device, flagged words for the next; null for the logits
  share_row later;                    ///< of the phase that takes this one's slot, phase_slots on
  /// matmul: `columns` counts experts used of one column, or is 1
  packed_matmul_args matmul;
  divider chunks{};                   ///< of a row tile
  std::uint32_t tiles_on = 0;         ///< program_warps chunks further: so many row tiles
  std::uint32_t chunks_on = 0;        ///< and chunks
  std::uint32_t groups = 0;           ///< of a row tile
  divider quads{};                    ///< four values of a row of the input
  std::uint32_t chunk_bytes[3] = {};  ///< of a whole one
  std::uint32_t tile_bytes[3] = {};
  /// Of a product of experts, which waits for the choice: the phase from whose start on its weights are
  /// known. 0 if it is of none.
  std::uint32_t known_from = 0;
  /// The product starts with the choice that `route` describes; its input is there since.
  bool chooses = false;
  /// It starts with the norm of the residual stream, the so many-th of the program.
  bool norms = false;
  std::uint32_t norm_round = 0;
  std::uint32_t route_round = 0;  ///< of a route, likewise
  /// Its input is that of the product before, where it is still.
  bool keeps_input = false;
  /// A product of one column: workers that store no output go on to the next phase while others store.
  bool overlaps_next = false;
  std::uint32_t sums_at = 0;    ///< where it then keeps its sums in the working memory, past either input
  bool attention_next = false;  ///< the next phase is attention
  /// After its norm, or after a phase that is no product, the next norm's weights [width], which that phase
  /// takes, and the next router's rows are fetched; or null.
  const float* next_norm = nullptr;
  std::uint32_t next_norm_at = 0;
  const float* next_router = nullptr;
  decode_attention_args attention;
  /// Device, flagged words [heads][pages][padded width + 2]: of steps of one column, the parts of attention's
  /// pages for the workers, each of which folds some values of them.
  std::uint64_t* parts = nullptr;
  std::uint32_t page_workers = 0;     ///< of one column
  std::uint32_t attention_items = 0;  ///< decode_items() of one column
  route_args route;
  combine_experts_args combine;
};

/// What one block does of attention first.
struct attention_share {
  std::uint16_t column = 0;
  std::uint16_t kv_head = 0;
  std::uint16_t first_head = 0;
  std::uint16_t heads = 0;   ///< up to decode_heads; 0: the block has nothing to do
  std::uint16_t worker = 0;  ///< less than program_blocks_max for a block's first item

  [[nodiscard]] bool operator==(const attention_share&) const = default;
};
/// Items of attention for a token of each column: each worker's part of the pages of each tile of heads.
[[nodiscard]] ORCD_HD constexpr std::uint32_t decode_items(const attention_args_paged& a,
                                                           std::uint32_t columns,
                                                           std::uint32_t page_workers) {
  return columns * decode_head_tiles(a) * a.kv_heads * page_workers;
}
[[nodiscard]] ORCD_HD constexpr attention_share attention_share_of(const attention_args_paged& a,
                                                                   std::uint32_t columns,
                                                                   std::uint32_t item) {
  const std::uint32_t group = a.heads / a.kv_heads;
  const std::uint32_t head_tiles = decode_head_tiles(a);
  const std::uint32_t tiles = head_tiles * a.kv_heads;
  const std::uint32_t tile = item % tiles;
  const std::uint32_t before = tile % head_tiles * decode_heads;
  const std::uint32_t kv_head = tile / head_tiles;
  attention_share share;
  share.column = static_cast<std::uint16_t>(item / tiles % columns);
  share.kv_head = static_cast<std::uint16_t>(kv_head);
  share.first_head = static_cast<std::uint16_t>(kv_head * group + before);
  share.heads = static_cast<std::uint16_t>(group - before < decode_heads ? group - before : decode_heads);
  share.worker = static_cast<std::uint16_t>(item / (tiles * columns));
  return share;
}

/// What one block does of a phase: of a product row tiles of each matrix, all their columns.
struct alignas(16) block_share {
  std::uint32_t first_tile[3] = {};
  std::uint32_t tiles[3] = {};
  std::uint32_t item = 0;    ///< which of the chosen experts, those of the first column first
  std::uint32_t chunks = 0;  ///< of all its tiles
  attention_share attention;

  [[nodiscard]] bool operator==(const block_share&) const = default;
};

/// What a program needs a kernel to have code for.
struct program_needs {
  std::uint32_t formats = 0;  ///< of weights: format_bit()
  bool experts = false;

  [[nodiscard]] constexpr bool within(const program_needs& others) const {
    return (formats & ~others.formats) == 0 && (others.experts || !experts);
  }
};

/// Shared memory, in this order: program_header_bytes, work_bytes for what a phase needs beside its weights,
/// kept_bytes for what stays, and the streams of the warps.
inline constexpr std::uint32_t program_blocks_max = 160;
inline constexpr std::uint32_t program_warps = 15;             ///< that multiply; one more loads
inline constexpr std::uint32_t program_reserved_bytes = 1024;  ///< that the device keeps before them
inline constexpr std::uint32_t program_header_bytes = 20 * 1024;

/// Bytes of one warp's stream beside so much else.
[[nodiscard]] ORCD_HD constexpr std::uint32_t stream_bytes(std::uint32_t work_and_kept_bytes) {
  const std::uint32_t used = program_header_bytes + work_and_kept_bytes;
  return used >= multiprocessor_shared_bytes
             ? 0
             : (multiprocessor_shared_bytes - used) / program_warps / 128 * 128;
}
/// Rows of the residual stream that a block may own, those of each column counted.
inline constexpr std::uint32_t own_rows_max = 256;

/// A row of the residual stream, of a norm's weights or of a router.
[[nodiscard]] ORCD_HD constexpr std::uint32_t row_bytes(std::uint32_t width) {
  return (width + 3) / 4 * 16;
}
/// Halfs between the columns of a product's input, which lie in different banks.
[[nodiscard]] ORCD_HD constexpr std::uint32_t input_stride(std::uint32_t cols, std::uint32_t columns) {
  return padded_cols(cols) + (columns > 1 ? 8 : 0);
}
/// Of a product: the padded input of each column as f16, after its norm if it has one. Experts have one
/// column each.
[[nodiscard]] ORCD_HD constexpr std::uint32_t input_bytes(const packed_matmul_args& args,
                                                          std::uint32_t columns) {
  const std::uint32_t n = args.experts != nullptr ? 1 : columns;
  return n * input_stride(args.w[0].cols, n) * 2;
}
/// And 16 sums for each column of each chunk of the block.
[[nodiscard]] ORCD_HD constexpr std::uint32_t sums_bytes(const packed_matmul_args& args,
                                                         std::uint32_t columns, std::uint32_t chunks) {
  const std::uint32_t n = args.experts != nullptr ? 1 : columns;
  return n * chunks * tile_rows * static_cast<std::uint32_t>(sizeof(float));
}
/// Warps that sum a row for a norm.
inline constexpr std::uint32_t norm_units = 8;
/// Of a product that begins with a norm, whose rows take the place of the sums to come.
[[nodiscard]] ORCD_HD constexpr std::uint32_t norm_work_bytes(std::uint32_t width, std::uint32_t columns) {
  return columns * (input_stride(width, columns) * 2 + row_bytes(width));
}
/// Of attention over heads of this padded width, before its input is there: that lies past so many bytes.
[[nodiscard]] ORCD_HD constexpr std::uint32_t attention_page_bytes(std::uint32_t padded_width) {
  return 256 * padded_width + 6208;
}
/// Of attention in all.
[[nodiscard]] ORCD_HD constexpr std::uint32_t attention_work_bytes(std::uint32_t padded_width) {
  return 276 * padded_width + program_warps * 512 + 8576;
}
/// Of a router: the norm of the column whose expert the block has, which is that product's input too; and
/// norms in f32.
[[nodiscard]] ORCD_HD constexpr std::uint32_t route_work_bytes(std::uint32_t width, std::uint32_t columns) {
  return padded_cols(width) * 2 + columns * row_bytes(width);
}
/// Of what stays from phase to phase: a norm's weights, a router's row if there is one, and how far each of
/// several columns is turned.
[[nodiscard]] ORCD_HD constexpr std::uint32_t kept_bytes(std::uint32_t width, bool routes,
                                                         std::uint32_t columns) {
  constexpr std::uint32_t turns = head_width_max / 2 * 8;
  return ((routes ? 2 : 1) * row_bytes(width) + (columns > 1 ? columns * turns : 0) + 127) / 128 * 128;
}

/// Instants of a phase, as clock values of one block, in ns: begun, input there, multiplied, first outputs
/// stored. The next phase may have begun before the last.
inline constexpr std::uint32_t phase_stamps = 4;

/// What a launch leaves for the next.
struct program_state {
  std::uint32_t left = 0;    ///< blocks that have come to the end; zero between launches
  std::uint32_t phases = 0;  ///< of the launches so far: words of phase p of this one carry phases + p + 1
};
/// Past so many phases all words are cleared and counting begins anew, so that a word that no step of few
/// columns writes never looks like a later one.
inline constexpr std::uint32_t counted_phases_max = 1U << 30U;

struct decode_program {
  const decode_phase* phases = nullptr;  ///< device, [count]
  const block_share* shares = nullptr;   ///< device, [rows][blocks]
  const step_column* steps = nullptr;    ///< device, [columns]
  share_row first_shares[phase_slots];   ///< of the first phases
  std::uint32_t columns = 1;
  std::uint32_t count = 0;
  std::uint32_t blocks = 0;
  std::uint32_t width = 0;  ///< of the residual stream
  std::uint32_t padded_head_width = 0;
  std::uint32_t experts = 0;  ///< of a router
  program_needs needs;
  std::uint32_t work_bytes = 0;
  std::uint32_t attention_at = 0;  ///< of one column: where in the working memory attention begins
  std::uint32_t kept_bytes = 0;    ///< kept_bytes()
  program_state* state = nullptr;  ///< device; zero at first
  std::uint64_t* words = nullptr;  ///< device; all flagged words, zero at first
  std::uint64_t word_count = 0;
  std::uint64_t* stamps = nullptr;  ///< device, [blocks][count][phase_stamps], or null: not taken
  // Of a program with an output head, whose only column's key is found with its logits:
  const float* logits = nullptr;          ///< device, [vocab]
  const std::uint32_t* banned = nullptr;  ///< device, as sample_args::banned
  unsigned long long* key = nullptr;      ///< device, as sample_args::keys; or null
};

/// Blocks that a program runs on, at most; 0 when the device cannot hold a grid at a barrier, or keeps
/// another part of shared memory for itself than Hopper does.
[[nodiscard]] std::uint32_t decode_program_blocks();
[[nodiscard]] int launch_decode_program(const decode_program& program, CUstream_st* stream);

}  // namespace orcd::kernels
