// Older files of models with latents hold attn_kv_b, the rows of all heads' keys and values. What backends
// multiply by are attn_k_b, the keys' rows of a head transposed, and attn_v_b (engine::latent_spec).
#pragma once

#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

/// Makes attn_k_b, in F32, and attn_v_b, with the file's own blocks, where a layer has attn_kv_b, and drops
/// that. The new ones lie in `m.weights.made`; models without latents are left as they are. Any thread;
/// `threads` is how many decode, 0 as many as there are processors.
void part_joined_latents(engine::model& m, unsigned threads);

}  // namespace orcd::gpu
