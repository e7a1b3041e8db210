// Attention over a paged KV cache of any kv_type: grouped heads, sliding window, sinks; for decode and
// prefill. Causal; prefill also without a mask.
//
// One numeric definition for both. Positions are cut at absolute multiples of 32 (spans) and 256 (pages). A
// span's scores are f32 sums, its probabilities e^x = 2^(x log2 e) by ex2.approx, rounded to f16 for the
// product with the values; its own maximum, sum and weighted values are f32. Spans of a page, then pages, are
// folded left to right. Scores beyond 2^20 lose accuracy, beyond 2^27 the result. Nothing depends on how many
// tokens a launch holds, on their order or on the launch shape.
//
// Determinism class: run-to-run, batch-invariant, chunk-invariant. Bound: KV bytes in decode. Source: Milakov
// and Gimelshein, arXiv 1805.02867 (online softmax); sinks as in gpt-oss.
#pragma once

#include <cstdint>

#include "kernels/attention/attention_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

[[nodiscard]] int launch_rope_store(const rope_store_args& args, CUstream_st* stream);
/// Whether the arguments, except `q`, are valid.
[[nodiscard]] bool valid_rope(const rope_store_args& args);

/// One token of each of `columns` sequences. The keys of the cache are read before the preceding kernel has
/// ended, so that one must not write it.
[[nodiscard]] int launch_attention_decode(const decode_attention_args& args, CUstream_st* stream);
/// The part of launch_attention_decode() for `stored` columns where rows_share(): several that are in a row
/// use what is read of the cache together.
[[nodiscard]] int launch_attention_rows(const decode_attention_args& args, CUstream_st* stream);
/// Whether queries of several columns fit one tile of the mma.
[[nodiscard]] bool rows_share(const attention_args_paged& args);
/// Floats of workspace for `columns` tokens of `pages` pages each.
[[nodiscard]] constexpr std::uint64_t decode_partial_floats(std::uint32_t columns, std::uint32_t heads,
                                                            std::uint32_t pages, std::uint32_t padded_width) {
  return std::uint64_t{columns} * heads * pages * (padded_width + 2);
}

/// Columns are `count` chunks of consecutive positions, each of a sequence of its own; `chunks` has the
/// columns of each, in their order, and is read before this returns. With `end`, which excludes a window,
/// there is one, and it has all positions of its sequence.
[[nodiscard]] int launch_attention_prefill(const attention_args_paged& args, const std::uint32_t* chunks,
                                           std::uint32_t count, CUstream_st* stream);

}  // namespace orcd::kernels
