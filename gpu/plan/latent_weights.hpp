// Older files of models with latents hold attn_kv_b, the rows of all heads' keys and values. What backends
// multiply by are attn_k_b, the keys' rows of a head transposed, and attn_v_b (engine::latent_spec).
#pragma once

#include <cstdint>

#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

/// The model with attn_k_b and attn_v_b as part_joined_latents() would make them, for plans: nobody may read
/// what these views point to.
[[nodiscard]] engine::model with_parted_shapes(const engine::model& m);

/// Bytes that part_joined_latents() allocates.
[[nodiscard]] std::uint64_t parted_bytes(const engine::model& m);

/// Makes attn_k_b, in F32, and attn_v_b, with the file's own blocks, where a layer has attn_kv_b, and drops
/// that. The new ones lie in `m.weights.made`; models without latents are left as they are. Any thread;
/// `threads` is how many decode, 0 as many as there are processors. Errors: insufficient_vram where memory is
/// short, internal where threads cannot be started.
[[nodiscard]] engine::result<void> part_joined_latents(engine::model& m, unsigned threads);

}  // namespace orcd::gpu
