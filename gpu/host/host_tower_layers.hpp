// The layers of a tower on the host: a stream of rows of the tower's width goes through them, one after the
// other. For pictures and sounds alike. Memory is allocated by the constructor alone. Branches on tower_spec
// fields only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/media/tower.hpp"
#include "gpu/host/view_layout.hpp"
#include "kernels/host/attention.hpp"
#include "kernels/host/thread_pool.hpp"

namespace orcd::gpu {

class host_tower_layers {
 public:
  /// `spec`, `layout` and `pool` outlive the object. Throws std::bad_alloc.
  host_tower_layers(const engine::tower_spec& spec, const view_layout& layout,
                    kernels::host::thread_pool& pool);
  /// What an object allocates.
  [[nodiscard]] static std::uint64_t bytes(const engine::tower_spec& spec) noexcept;

  /// [patches][width]: what goes into the first layer and comes out of the last one.
  [[nodiscard]] float* stream() noexcept { return stream_; }
  /// Free between layers: [patches][width], [patches][3 width], and what is told by hidden_values().
  [[nodiscard]] float* normed() noexcept { return normed_; }
  [[nodiscard]] float* wide() noexcept { return qkv_; }
  [[nodiscard]] float* hidden() noexcept { return hidden_; }

  /// `number` counts from 1.
  void run(const engine::tower_layer& layer, std::size_t number);
  /// Norms the stream into normed().
  void normalise(const engine::tensor_view& weight, const engine::tensor_view& bias);

 private:
  void project_heads(const engine::tower_layer& layer);
  void normalise_heads(const engine::tower_layer& layer);
  void rotate_heads();
  void attend(bool windows);
  void attend_range(std::uint32_t first, std::uint32_t count);
  void feed_forward(const engine::tower_layer& layer);
  void add_half(const engine::tower_matrix& matrix, const float* x, const engine::tensor_view& post_norm);
  void rms_norm(const float* x, float* out, const engine::tensor_view& weight);
  void multiply(const engine::tower_matrix& matrix, const float* x, float* y, std::size_t y_stride,
                bool accumulate = false);
  [[nodiscard]] std::uint32_t patches() const noexcept { return layout_.lines() * layout_.columns(); }

  struct extents;
  const engine::tower_spec& spec_;
  const view_layout& layout_;
  kernels::host::thread_pool& pool_;
  std::unique_ptr<float[]> memory_;
  float *stream_ = nullptr, *normed_ = nullptr;
  float* qkv_ = nullptr;
  /// [patches][ffn], with gates [patches][2 ffn] and behind it [patches][ffn].
  float* hidden_ = nullptr;
  float* clipped_ = nullptr;  ///< [patches][the wider of width and ffn], of towers that clip values
  float* keys_ = nullptr;     ///< pages of the view at hand, in f32
  float* values_ = nullptr;
  std::vector<std::int32_t> pages_;  ///< 0, 1, ...
  std::vector<kernels::attention_column> columns_;
};

}  // namespace orcd::gpu
