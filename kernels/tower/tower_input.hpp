// What comes before a tower's first layer: patches of a picture's pixels, places of a sound's frames, and the
// positions that are added to what their products give.
// Determinism class: exact, but for the conversion to f16 and f32 sums in a fixed order. Bound: memory.
#pragma once

#include <cstdint>

#include "kernels/tower/view_place.hpp"

struct CUstream_st;
struct __half;

namespace orcd::kernels {

/// Row i: the values of patch i in the order channel, row, column, as engine::copy_patch() has them.
struct gather_patches_args {
  const std::uint8_t* rgb = nullptr;   ///< device, [..][3 * width]
  std::uint32_t width = 0;             ///< pixels of a line
  std::uint32_t side = 0;              ///< pixels of a patch's side
  const view_place* places = nullptr;  ///< device, [patches], in patches
  const float* values = nullptr;       ///< device, [channel][byte]: 768
  std::uint32_t patches = 0;
  __half* out = nullptr;         ///< [patches][out_stride], zeros from 3 * side * side on
  std::uint32_t out_stride = 0;  ///< halves
};
[[nodiscard]] int launch_gather_patches(const gather_patches_args& args, CUstream_st* stream);

/// Inputs of a convolution along one side: of each step-th place the values of a channel in the three places
/// around it, then those of the next channel. What lies beyond an end is 0. With `activate` the exact GELU of
/// the values.
struct spread_places_args {
  const float* x = nullptr;  ///< [places][channels]
  std::uint32_t places = 0;
  std::uint32_t channels = 0;
  std::uint32_t step = 1;
  bool activate = false;
  __half* out = nullptr;  ///< [places / step, rounded up][out_stride], zeros from 3 * channels on
  std::uint32_t out_stride = 0;
};
[[nodiscard]] int launch_spread_places(const spread_places_args& args, CUstream_st* stream);

/// each: a row for each patch of the view, line by line. between: rows of a grid of `side` by `side` whose
/// corners are the view's; a patch has what lies at its place between four of them. by_side: the row of its
/// column, and, `side` rows behind, that of its line.
enum class position_rows : std::uint8_t { each, between, by_side };

/// x[i] += what is at patch i's place; with `activate` x[i] becomes its exact GELU first.
struct add_places_args {
  float* x = nullptr;                  ///< [patches][width]
  const float* rows = nullptr;         ///< [..][width]
  const view_place* places = nullptr;  ///< device, [patches]
  position_rows form = position_rows::each;
  std::uint32_t side = 0;
  std::uint32_t lines = 0, columns = 0;  ///< of the view
  std::uint32_t width = 0;
  std::uint32_t patches = 0;
  bool activate = false;
};
[[nodiscard]] int launch_add_places(const add_places_args& args, CUstream_st* stream);

}  // namespace orcd::kernels
