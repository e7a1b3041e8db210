// Chooses the next token of each column on the device: biases, penalties, temperature, top_k, top_p, min_p
// and the draw of engine/sampling/sampling.hpp, bit for bit, and the numbers that log probabilities are made
// of. Sums are integers (units of 2^-40 of the most likely token's weight) and every f32 operation is a
// single IEEE one, so that nothing depends on the launch shape.
//
// The kernel also keeps each slot's state, so that the next step can be enqueued before the host knows this
// one's tokens (kernels/sample/step_control.hpp feeds them back).
//
//   logits --> slices of the vocabulary in the shared memory of eight blocks --> banned, biased, penalised
//          --> most likely token (greedy), or cut by top_k, top_p, min_p, then drawn --> result, slot state
//
// Determinism class: run-to-run, batch-invariant (M0-W-1032, M0-W-1421). Bound: latency.
#pragma once

#include "kernels/sample/sample_args.hpp"

struct CUstream_st;

namespace orcd::kernels {

[[nodiscard]] int launch_sample(const sample_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
