// What the launches of attention share: the check of their arguments, and the choice of the instance for a
// head width and the cache's types.
#pragma once

#include <cuda_runtime.h>

#include "kernels/attention/attention_args.hpp"

namespace orcd::kernels {

inline bool valid_attention(const attention_args_paged& a) {
  return a.out != nullptr && a.steps != nullptr && a.cache.keys != nullptr && a.cache.values != nullptr &&
         a.cache.page_table != nullptr && a.columns > 0 && a.kv_heads > 0 && a.heads % a.kv_heads == 0 &&
         a.scale > 0.0F && a.width > 0 && a.width % 2 == 0 && a.width <= a.padded_width &&
         a.padded_width % head_width_step == 0 && a.padded_width <= head_width_max;
}

/// Calls launch.operator()<W, K, V>() with the padded head width and types of the arguments.
template <engine::kv_type K, engine::kv_type V, class Launch>
int with_width(std::uint32_t padded_width, Launch launch) {
  switch (padded_width) {
    case 32: return launch.template operator()<32, K, V>();
    case 64: return launch.template operator()<64, K, V>();
    case 96: return launch.template operator()<96, K, V>();
    case 128: return launch.template operator()<128, K, V>();
    case 256: return launch.template operator()<256, K, V>();
    case 512:
      if constexpr (attention_takes(512, K, V)) return launch.template operator()<512, K, V>();
  }
  return cudaErrorInvalidValue;
}
template <engine::kv_type K, class Launch>
int with_values(const attention_args_paged& a, Launch launch) {
  switch (a.cache.value_type) {
    case engine::kv_type::f16: return with_width<K, engine::kv_type::f16>(a.padded_width, launch);
    case engine::kv_type::bf16: return with_width<K, engine::kv_type::bf16>(a.padded_width, launch);
    case engine::kv_type::q8_0: return with_width<K, engine::kv_type::q8_0>(a.padded_width, launch);
    case engine::kv_type::f32: break;
  }
  return cudaErrorInvalidValue;
}
template <class Launch>
int with_shape(const attention_args_paged& a, Launch launch) {
  switch (a.cache.key_type) {
    case engine::kv_type::f16: return with_values<engine::kv_type::f16>(a, launch);
    case engine::kv_type::bf16: return with_values<engine::kv_type::bf16>(a, launch);
    case engine::kv_type::q8_0: return with_values<engine::kv_type::q8_0>(a, launch);
    case engine::kv_type::f32: break;
  }
  return cudaErrorInvalidValue;
}

}  // namespace orcd::kernels
