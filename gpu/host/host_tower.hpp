// A tower on the host, with the reference kernels: from the pixels of a picture, or the frames of a sound, to
// rows of the text model's width. Works in slices, so that steps go on between them; the bits do not depend
// on the slices, on other pictures or on the number of threads. Memory is allocated by the constructor alone.
// Branches on tower_spec fields only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/media/prepared_medium.hpp"
#include "engine/media/tower.hpp"
#include "kernels/host/attention.hpp"
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
  /// end. `row` says where the medium's i-th row goes, of spec.out_width values.
  void begin(const engine::prepared_medium& medium, std::function<float*(std::uint32_t)> row);
  /// The next slice: a layer of a view (of a sound: a chunk), or its beginning or end. Returns whether it was
  /// the last.
  [[nodiscard]] bool go_on();

 private:
  void embed();
  void embed_sound();
  void add_positions();
  void run_layer(const engine::tower_layer& layer);
  void attend();
  void finish_view();
  void finish_chunk();
  void gelu(float* values, std::uint32_t rows, std::uint32_t width, bool tanh_form);
  void give_rows(std::uint32_t rows);
  void normalise(const engine::tensor_view& weight, const engine::tensor_view& bias);
  void multiply(const engine::tensor_view& matrix, const engine::tensor_view& bias, const float* x, float* y,
                std::size_t y_stride, bool accumulate = false, std::uint32_t columns = 0);
  void merge_patches();

  struct extents;
  const engine::tower& tower_;
  const engine::tower_spec& spec_;
  kernels::host::thread_pool& pool_;
  std::unique_ptr<float[]> memory_;
  float *stream_ = nullptr, *normed_ = nullptr;  ///< [patches][width]
  float* qkv_ = nullptr;                         ///< [patches][3 width]
  float* hidden_ = nullptr;     ///< [patches][ffn]; before and behind the layers what a product is made of
  float* merged_ = nullptr;     ///< [rows][inputs of the projection]
  float* projected_ = nullptr;  ///< [rows][out_width]
  float* keys_ = nullptr;       ///< pages of the view at hand, in f32
  float* values_ = nullptr;
  std::vector<float> projection_;    ///< turned, where the file has it the other way round
  std::vector<float> pixel_values_;  ///< of a byte in each channel
  std::vector<std::int32_t> pages_;  ///< 0, 1, ...
  std::vector<kernels::attention_column> columns_;

  const engine::prepared_medium* medium_ = nullptr;
  std::function<float*(std::uint32_t)> row_;
  std::size_t view_ = 0;
  std::size_t slice_ = 0;  ///< of the view: 0 its beginning, then layers, then its end
  std::uint32_t rows_done_ = 0;
  std::uint32_t patch_rows_ = 0, patch_columns_ = 0;  ///< of the view at hand
  [[nodiscard]] std::uint32_t patches() const noexcept { return patch_rows_ * patch_columns_; }
};

}  // namespace orcd::gpu
