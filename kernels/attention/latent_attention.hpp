// Latent attention over a paged cache of one row a position for all heads: a key is the whole row, a value
// its first `rank` values. For decode and prompts, whose tokens are computed alike.
//
// One numeric definition. Queries, rows and probabilities are f16; scores and weighted values are sums of
// mma.m16n8k16 in f32, in ascending order of 16 values or positions. A page of 256 positions is taken in
// chunks of 64 at absolute positions, with a running maximum, by which earlier sums are scaled; pages are
// folded left to right. Nothing depends on how many tokens a launch holds or on which blocks have the pages.
//
// Determinism class: run-to-run, batch-invariant, chunk-invariant. Bound: error 2^-11 of the magnitude of the
// terms, as paged_attention.hpp. Sources: DeepSeek-V2 2405.04434 (absorbed products); Milakov and Gimelshein,
// arXiv 1805.02867 (online softmax).
#pragma once

#include "kernels/attention/latent_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

/// Norm of the latents, rotation, rows into the cache; queries in f16, in two parts.
[[nodiscard]] int launch_latent_store(const latent_store_args& args, CUstream_st* stream);

/// The rows of all positions that the tokens see have been stored.
[[nodiscard]] int launch_latent_attention(const latent_attention_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
