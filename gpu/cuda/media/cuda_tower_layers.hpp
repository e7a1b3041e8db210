// The layers of a tower on the GPU: a stream of rows of the tower's width, f32, goes through them, one after
// the other. For pictures and sounds alike. Products take f16; so does attention. Its calls enqueue. GPU
// thread only. Branches on tower_spec fields only.
#pragma once

#include <cstdint>

#include "engine/media/tower.hpp"
#include "gpu/cuda/media/tower_buffers.hpp"
#include "gpu/cuda/media/tower_products.hpp"
#include "gpu/plan/media/tower_weights.hpp"

namespace orcd::gpu {

class cuda_tower_layers {
 public:
  /// `spec` and `products` outlive the object.
  cuda_tower_layers(const engine::tower_spec& spec, const tower_buffers& buffers,
                    const tower_products& products, cudaStream_t stream)
      : spec_(spec), at_(buffers), products_(products), stream_(stream) {}

  /// `number` counts from 1. Throws cuda_failure.
  void run(const cuda_tower_layer& layer, std::size_t number, const tower_view& view) const;
  /// Norms the first `rows` rows of the stream in place.
  void normalise_stream(const float* weight, const float* bias, std::uint32_t rows) const;

 private:
  /// Some neighbouring patches, as many as products take at a time.
  struct part {
    std::uint32_t first, count;
  };
  template <class Do>
  static void each_part(std::uint32_t patches, Do what);
  [[nodiscard]] __half* normed_of(const part& of) const noexcept;
  void normalise(const float* weight, const float* bias, const part& of) const;
  void project_heads(const cuda_tower_layer& layer, const part& of) const;
  void prepare_heads(const cuda_tower_layer& layer, const part& of, std::uint32_t patches) const;
  void attend(bool windows, const tower_view& view) const;
  void feed_forward(const cuda_tower_layer& layer, const part& of) const;
  void add_half(const cuda_tower_matrix& matrix, const __half* x, const float* post_norm,
                const part& of) const;
  void multiply(const cuda_tower_matrix& matrix, const __half* x, float* y, std::uint32_t y_stride,
                std::uint32_t rows, bool adds = false) const;

  const engine::tower_spec& spec_;
  tower_buffers at_;
  const tower_products& products_;
  cudaStream_t stream_;
};

}  // namespace orcd::gpu
