// Rotary position embedding in two parts: the angles of a step's tokens, once for all layers that share a
// table, and the rotation of the heads of Q or K. angle = position * inv_freq in f64, of the one of a token's
// three positions that the pair has where there are three (engine/model/rope.hpp); cos and sin are rounded to
// f32 once and multiplied by the magnitude. Source: Su et al. 2104.09864; tables: engine/model/rope.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace orcd::kernels {

struct rope_angles_args {
  const float* inv_freq = nullptr;           ///< [pairs]
  const std::uint32_t* positions = nullptr;  ///< [columns], below 2^24; with axes three times so many
  const std::uint8_t* axes = nullptr;        ///< [pairs], 0 to 2, or null
  std::size_t axis_stride = 0;               ///< how far apart the positions of two axes are
  float* cosines = nullptr;                  ///< [columns][pairs]
  float* sines = nullptr;                    ///< [columns][pairs]
  float magnitude = 1.0F;
  std::uint32_t pairs = 0;
  std::uint32_t columns = 0;
};

struct rope_args {
  float* x = nullptr;              ///< [columns] rows of [heads][head_width], rows x_stride apart; in place
  const float* cosines = nullptr;  ///< [columns][pairs]
  const float* sines = nullptr;
  std::size_t x_stride = 0;
  std::uint32_t columns = 0;
  std::uint32_t heads = 0;
  std::uint32_t head_width = 0;
  std::uint32_t pairs = 0;   ///< the first 2 * pairs values of a head are rotated
  bool interleaved = false;  ///< pairs (2i, 2i+1); else (i, i + pairs)
};

namespace host {
class thread_pool;
void rope_angles(const rope_angles_args& args, thread_pool& pool);
void rope(const rope_args& args, thread_pool& pool);
}  // namespace host

}  // namespace orcd::kernels
