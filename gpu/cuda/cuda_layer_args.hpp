// The arguments of a layer's kernels, by the model's weights and the workspace's buffers: the same for
// separate launches and for the decode program. GPU thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_kv_pages.hpp"
#include "gpu/cuda/media/given_media.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/plan/weight_layout.hpp"
#include "gpu/plan/work_layout.hpp"
#include "kernels/attention/attention_args.hpp"
#include "kernels/layer/experts_args.hpp"
#include "kernels/product/packed_matmul_args.hpp"

namespace orcd::gpu {

class cuda_layer_args {
 public:
  /// All but `m` outlive the object. Writes the tables of rotation, by copies that may still be under way
  /// when it returns.
  cuda_layer_args(const engine::model& m, const cuda_weights& weights, std::uint32_t context,
                  const work_layout& layout, const vram_arena& work, const cuda_kv_pages& pages,
                  const given_media& media);

  void norm_inside(kernels::packed_matmul_args& args, const float* norm) const;
  __half* norm_outside(kernels::packed_matmul_args& args) const;
  [[nodiscard]] kernels::packed_matmul_args normed(kernels::packed_matmul_args args) const;
  void activate(kernels::packed_matmul_args& gate_up, std::uint32_t layer) const;
  void read_activated(kernels::packed_matmul_args& down, std::uint32_t layer) const;
  void add_to_residual(kernels::packed_matmul_args& args) const;

  [[nodiscard]] kernels::packed_matmul_args head_of() const;
  [[nodiscard]] kernels::packed_matmul_args qkv_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::rope_store_args rope_of(std::uint32_t layer, std::uint32_t columns) const;
  [[nodiscard]] kernels::decode_attention_args attention_of(std::uint32_t layer, std::uint32_t columns) const;
  [[nodiscard]] kernels::packed_matmul_args o_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::packed_matmul_args gate_up_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::packed_matmul_args down_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::route_args route_of(std::uint32_t layer, std::uint32_t columns) const;
  [[nodiscard]] kernels::packed_matmul_args expert_gate_up_of(std::uint32_t layer, std::uint32_t pairs) const;
  [[nodiscard]] kernels::packed_matmul_args expert_down_of(std::uint32_t layer, std::uint32_t pairs) const;
  [[nodiscard]] kernels::packed_matmul_args shared_gate_up_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::packed_matmul_args shared_down_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::combine_experts_args combine_of(std::uint32_t columns) const;
  /// Of the layer's rotation: a table in VRAM, and what multiplies it.
  [[nodiscard]] const float* inv_freq_of(std::uint32_t layer) const noexcept {
    return at<float>(layout_.inv_freq) + rope_of_layer_[layer] * kernels::rope_pairs_max;
  }
  [[nodiscard]] float magnitude_of(std::uint32_t layer) const noexcept {
    return magnitudes_[rope_of_layer_[layer]];
  }
  [[nodiscard]] std::uint32_t attended_width(std::uint32_t layer) const noexcept {
    const engine::layer_spec& of = spec_.layers[layer];
    return spec_.latent ? of.heads * spec_.latent.value_length : of.attended_rows();
  }

 private:
  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return work_.at<T>(offset);
  }
  void write_tables(const engine::model& m, std::uint32_t context);

  const engine::model_spec& spec_;
  const cuda_weights& weights_;
  const work_layout& layout_;
  const vram_arena& work_;
  const cuda_kv_pages& pages_;
  const given_media& media_;
  std::vector<std::uint32_t> rope_of_layer_;  ///< index of the layer's table
  std::vector<float> magnitudes_;             ///< of each table
  std::vector<bool> turns_by_axes_;           ///< of each table: its pairs have one of three positions
};

}  // namespace orcd::gpu
