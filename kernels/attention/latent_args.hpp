// What the kernels of latent attention are given (engine::latent_spec). Shared by host and device code; no
// CUDA types.
#pragma once

#include <cstdint>

#include "engine/model/kv_type.hpp"
#include "kernels/device/host_device.hpp"
#include "kernels/device/step_token.hpp"

struct __half;

namespace orcd::kernels {

inline constexpr std::uint32_t latent_rank_step = 32;  ///< the rank is a multiple of this,
inline constexpr std::uint32_t latent_rank_max = 512;  ///< up to here
inline constexpr std::uint32_t latent_rotated_max = 64;

/// Halves of a cached row: the latent, the rotated values, zeros.
[[nodiscard]] ORCD_HD constexpr std::uint32_t padded_latent_row(std::uint32_t rank, std::uint32_t rotated) {
  return (rank + rotated + latent_rank_step - 1) / latent_rank_step * latent_rank_step;
}
[[nodiscard]] constexpr std::uint64_t latent_page_bytes(std::uint32_t rank, std::uint32_t rotated) {
  return std::uint64_t{padded_latent_row(rank, rotated)} * 2 * engine::kv_page_positions;
}

/// One layer's cache: [page][256] rows in f16. 16-byte aligned.
struct latent_cache {
  __half* rows = nullptr;
  const std::int32_t* page_table = nullptr;  ///< [slots][pages_per_slot]
  std::uint32_t pages_per_slot = 0;
};

struct latent_store_args {
  const float* query = nullptr;  ///< [columns][heads][unrotated + rotated]
  const float* row = nullptr;    ///< [columns][rank + rotated]
  const float* norm = nullptr;   ///< [rank], of the latent
  float norm_eps = 0.0F;
  const step_token* steps = nullptr;
  std::uint32_t columns = 0;
  std::uint32_t heads = 0;
  std::uint32_t rank = 0;
  std::uint32_t unrotated = 0;
  std::uint32_t rotated = 0;
  bool interleaved = false;
  const float* inv_freq = nullptr;  ///< [rotated / 2]
  float magnitude = 1.0F;
  __half* unrotated_out = nullptr;  ///< [columns][heads][unrotated_stride], zeros behind the values
  std::uint32_t unrotated_stride = 0;
  __half* rotated_out = nullptr;  ///< [columns][heads][padded_latent_row - rank], zeros behind the values
  latent_cache cache;
};

struct latent_attention_args {
  const float* latent_q = nullptr;    ///< [columns][heads][rank], queries in the latent's space
  const __half* rotated_q = nullptr;  ///< [columns][heads][padded_latent_row - rank]
  const step_token* steps = nullptr;  ///< causal: a token sees the positions up to its own
  std::uint32_t columns = 0;
  std::uint32_t heads = 0;
  std::uint32_t rank = 0;
  std::uint32_t rotated = 0;
  float scale = 0.0F;
  __half* out = nullptr;         ///< [columns][heads][out_stride], zeros behind the rank
  std::uint32_t out_stride = 0;  ///< a multiple of 8
  latent_cache cache;
  /// With `spread`, blocks share a token's pages where there are multiprocessors for it.
  bool spread = false;
  float* partials = nullptr;          ///< with `spread`: workspace, latent_partial_floats()
  std::uint32_t* arrivals = nullptr;  ///< with `spread`: workspace, [columns][heads]; zero between launches
};

/// Floats of workspace for `columns` tokens of `pages` pages each.
[[nodiscard]] constexpr std::uint64_t latent_partial_floats(std::uint32_t columns, std::uint32_t heads,
                                                            std::uint32_t pages, std::uint32_t rank) {
  return std::uint64_t{columns} * heads * pages * (rank + 2);
}

}  // namespace orcd::kernels
