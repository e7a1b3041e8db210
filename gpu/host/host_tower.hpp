// A tower on the host, with the reference kernels: from the pixels of a picture, or the frames of a sound, to
// rows of the text model's width. Works in slices, so that steps go on between them; the bits do not depend
// on the slices, on other media or on the number of threads. Memory is allocated by the constructor alone.
// Branches on tower_spec fields only.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/media/prepared_medium.hpp"
#include "engine/media/tower.hpp"
#include "gpu/host/host_tower_layers.hpp"
#include "gpu/host/view_layout.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {

class host_tower {
 public:
  /// `t` and `pool` outlive the object. Throws std::bad_alloc.
  host_tower(const engine::tower& t, kernels::host::thread_pool& pool);
  /// What an object allocates.
  [[nodiscard]] static std::uint64_t bytes(const engine::tower_spec& spec) noexcept;

  /// Begins a medium of the tower's kind, in place of one that has not ended; it stays as it is until the
  /// end. `row` says where the medium's i-th row goes, of spec.row_width() values.
  void begin(const engine::prepared_medium& medium, std::function<float*(std::uint32_t)> row);
  /// The next slice: a layer of a view (of a sound: a chunk), or its beginning or end. Returns whether it was
  /// the last.
  [[nodiscard]] bool go_on();

 private:
  void embed();
  void embed_sound();
  void add_positions();
  void add_positions_between();
  void add_positions_by_side();
  void run_layer();
  void keep_deepstack(const engine::tower_merger& merger);
  void finish_view();
  void reduce_rows();
  void project_rows();
  void convolve(const engine::tensor_view& kernel, const engine::tensor_view& bias, const float* x, float* y,
                std::uint32_t places);
  void gelu(float* values, std::uint32_t rows, std::uint32_t width);
  void merge_patches(const float* from);
  void run_merger(const engine::tower_merger& merger, float* out);
  [[nodiscard]] std::uint32_t patches() const noexcept { return layout_.lines() * layout_.columns(); }
  [[nodiscard]] std::uint32_t view_rows() const noexcept {
    return spec_.sound ? patches() / spec_.sound->stack
                       : patches() / (spec_.pictures.merge * spec_.pictures.merge);
  }

  const engine::tower& tower_;
  const engine::tower_spec& spec_;
  kernels::host::thread_pool& pool_;
  view_layout layout_;
  host_tower_layers layers_;
  std::vector<float> merged_;        ///< [rows][inputs of the projection]
  std::vector<float> projected_;     ///< [rows][row_width]
  std::vector<float> patch_;         ///< the matrix of patches, where it is the sum of two
  std::vector<float> projection_;    ///< turned, where the file has it the other way round
  std::vector<float> pixel_values_;  ///< of a byte in each channel

  const engine::prepared_medium* medium_ = nullptr;
  std::function<float*(std::uint32_t)> row_;
  std::size_t view_ = 0;
  std::size_t slice_ = 0;  ///< of the view: 0 its beginning, then layers, then its end
  std::uint32_t rows_done_ = 0;
  std::uint32_t deepstack_done_ = 0;  ///< of the view
};

}  // namespace orcd::gpu
