// A tower on the GPU: from the pixels of a picture, or the frames of a sound, to rows of the text model's
// width in the blocks that keep them. Works in slices, so that steps go on between them; the bits do not
// depend on the slices or on other media. Memory is planned, and allocated before it. Its calls enqueue, and
// wait for the slice before the last one, so that no more than two are on their way. GPU thread only.
// Branches on tower_spec fields only.
//
//   begin of a view   pixels, places --> patches --> product, norm, positions --> the stream
//   layers            cuda_tower_layers; some leave parts of rows behind
//   end               norm, squares of patches joined --> products --> rows
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/media/prepared_medium.hpp"
#include "engine/media/tower.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/media/cuda_tower_layers.hpp"
#include "gpu/cuda/media/media_upload.hpp"
#include "gpu/cuda/media/tower_buffers.hpp"
#include "gpu/cuda/media/tower_products.hpp"
#include "gpu/plan/media/tower_weights.hpp"
#include "gpu/plan/media/view_places.hpp"
#include "kernels/tower/tower_rows.hpp"

namespace orcd::gpu {

class cuda_tower {
 public:
  /// `spec`, `layout` and `arena` outlive the object. Throws cuda_failure.
  cuda_tower(const engine::tower_spec& spec, cuda_tower_weights weights, const media_layout& layout,
             const vram_arena& arena, bool pinned, cudaStream_t stream);

  /// Begins a medium of the tower's kind, in place of one that has not ended; it stays as it is until the
  /// end. Its rows go to `blocks` of `store`.
  void begin(const engine::prepared_medium& medium, std::span<const std::uint32_t> blocks,
             const kernels::row_store& store);
  /// The next slice: a layer of a view (of a sound: a chunk), or its beginning or end. Returns whether it was
  /// the last. Throws cuda_failure.
  [[nodiscard]] bool go_on();

 private:
  void embed();
  void embed_sound();
  void set_view(std::uint32_t lines, std::uint32_t columns);
  void send_view();
  void multiply_rows(const cuda_tower_matrix& matrix, const __half* x, float* y, std::uint32_t rows) const;
  void add_positions(bool activate) const;
  void run_layer();
  void keep_deepstack(const cuda_tower_merger& merger);
  void finish_view();
  void merge(float* out) const;
  void merge(__half* out) const;
  void reduce_rows() const;
  void run_merger(const cuda_tower_merger& merger, const __half* x, std::uint32_t part) const;
  void project_rows() const;
  void store(std::uint32_t part) const;
  void bound_slices();
  [[nodiscard]] kernels::merge_patches_args merging() const;
  [[nodiscard]] std::uint32_t view_rows() const noexcept {
    return spec_.sound ? view_.patches() / spec_.sound->stack
                       : view_.patches() / (spec_.pictures.merge * spec_.pictures.merge);
  }

  const engine::tower_spec& spec_;
  cuda_tower_weights weights_;
  tower_buffers at_;
  std::uint32_t* device_blocks_;
  cudaStream_t stream_;
  tower_products products_;
  cuda_tower_layers layers_;
  view_places places_;
  media_upload upload_;
  std::vector<std::uint32_t> patch_at_;  ///< what is sent of a view
  std::vector<kernels::tower_range> ranges_;
  event slices_done_[2];

  const engine::prepared_medium* medium_ = nullptr;
  kernels::row_store store_;
  tower_view view_;
  std::size_t part_ = 0;   ///< of the medium: the view that is under way
  std::size_t slice_ = 0;  ///< of the view: 0 its beginning, then layers, then its end
  std::uint64_t slices_ = 0;
  std::uint32_t rows_done_ = 0;
  std::uint32_t deepstack_done_ = 0;  ///< of the view
};

}  // namespace orcd::gpu
