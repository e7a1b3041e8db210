// Everything the host backend writes to, allocated once by load(): scratch of a step, the KV cache and
// the logits. Sizes follow from the spec, the slots and the tokens of a step.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/kv_groups.hpp"
#include "gpu/memory/arena_mapping.hpp"
#include "kernels/host/attention.hpp"
#include "kernels/host/matmul.hpp"

namespace orcd::gpu {

/// Widths of the scratch rows: the largest over all layers.
struct host_extents {
  std::uint32_t columns = 0;  ///< tokens of a step, all sequences together
  std::uint32_t slots = 0;
  std::uint32_t draft_tokens = 0;   ///< of a step, all sequences together
  std::uint32_t context = 0;        ///< positions per slot
  kv_groups groups;                 ///< of the KV cache
  std::uint32_t qkv = 0;            ///< Q | K | V of one token
  std::uint32_t attended = 0;       ///< all heads of one token
  std::uint32_t latent_query = 0;   ///< models with latents: queries of all heads of one token,
  std::uint32_t latent_factor = 0;  ///< the first factor of them,
  std::uint32_t latent_values = 0;  ///< and what the heads give
  std::uint32_t ffn = 0;            ///< hidden width
  std::uint32_t ffn_rows = 0;       ///< feed-forward rows of a step: columns, times the experts used
  std::uint32_t rope_pairs = 0;
  std::uint32_t rope_tables = 0;
  bool rotates_grids = false;      ///< by three positions (engine::rope_axes), and there may be grids of rows
  std::uint32_t rounded = 0;       ///< activations in int8; 0 for models without
  std::uint32_t layer_inputs = 0;  ///< of all layers together
  std::uint32_t gated_query = 0;   ///< queries and gates of one token
  std::uint32_t mixed = 0;         ///< of one token in a layer with another mixer than attention
  std::uint32_t mix_values = 0;    ///< what such a layer's heads give
  std::uint32_t mix_heads = 0;     ///< of values, in layers with a state
  std::uint32_t states = 0;        ///< of a slot's sequence that are kept, at boundaries of chunks
  bool takes_rows = false;         ///< of media, in the place of tokens
  engine::kv_types kv{};

  /// `context`: positions per slot, whatever the configuration says. Steps that may be launched ahead of one
  /// another: `launch_depth`.
  [[nodiscard]] static host_extents of(const engine::model_spec& spec,
                                       const engine::accelerator_config& config, std::uint32_t context,
                                       std::uint32_t chunk_tokens, std::uint32_t launch_depth);
  [[nodiscard]] std::uint32_t pages_per_slot() const noexcept {
    return engine::pages_over(context, engine::kv_page_positions);
  }
};

/// Of a token in the layer with the widest mixer (gpu/host/host_recurrence.hpp); 0 where all attend.
[[nodiscard]] std::uint32_t mixed_width(const engine::model_spec& spec);

/// Scratch of one step. Every pointer is into one allocation.
class host_workspace {
 public:
  host_workspace(const engine::model_spec& spec, const host_extents& extents);
  [[nodiscard]] static std::uint64_t bytes(const engine::model_spec& spec, const host_extents& extents);

  float* residual = nullptr;         ///< [columns][embedding]
  float* normed = nullptr;           ///< [columns][embedding]
  float* qkv = nullptr;              ///< [columns][qkv]
  float* attended = nullptr;         ///< [columns][attended]
  float* latent_query = nullptr;     ///< [columns][latent_query], as the next two for models with latents
  float* latent_factor = nullptr;    ///< [columns][latent_factor]
  float* latent_values = nullptr;    ///< [columns][latent_values]
  float* half_out = nullptr;         ///< [columns][embedding], where it is not added to the stream at once
  float* layer_inputs = nullptr;     ///< [columns][layers][layer_inputs], models with inputs of layers
  float* input_rows = nullptr;       ///< the same, of the table by token
  float* input_gates = nullptr;      ///< [columns][2][layer_inputs], likewise: of the layer at hand
  float* gated_query = nullptr;      ///< [columns][gated_query], layers whose queries have gates
  float* mixed = nullptr;            ///< [columns][mixed], as the next three for layers with other mixers
  float* mix_values = nullptr;       ///< [columns][mix_values]
  float* mix_factors = nullptr;      ///< [columns][mix_heads]
  float* mix_decays = nullptr;       ///< [columns][mix_heads]
  float* shared_gates = nullptr;     ///< [columns], models whose shared expert has a gate
  float* gate_up = nullptr;          ///< [ffn_rows][2 * ffn]
  float* activated = nullptr;        ///< [ffn_rows][ffn]
  std::int8_t* ints = nullptr;       ///< [columns][rounded], models with integer activations only
  float* int_scales = nullptr;       ///< [columns], likewise
  std::int32_t* int_sums = nullptr;  ///< [columns], likewise
  float* expert_out = nullptr;       ///< [ffn_rows][embedding], MoE only
  float* router_logits = nullptr;    ///< [columns][experts]
  float* expert_weights = nullptr;   ///< [ffn_rows]
  float* cosines = nullptr;          ///< [rope_tables][columns][rope_pairs]
  float* sines = nullptr;
  std::uint32_t* chosen = nullptr;        ///< [ffn_rows] experts of each token
  std::uint32_t* expert_in = nullptr;     ///< [ffn_rows] rows an expert reads, grouped by expert
  std::uint32_t* expert_rows = nullptr;   ///< [ffn_rows] rows an expert writes
  std::uint32_t* positions = nullptr;     ///< [columns]
  std::uint32_t* rotary = nullptr;        ///< [3][columns] times, lines and columns, where rows may have them
  std::int32_t* tokens = nullptr;         ///< [columns]
  std::uint32_t* sampled_rows = nullptr;  ///< [slots + draft_tokens] rows of the logits a step writes

  std::vector<kernels::attention_column> attention;  ///< [columns], of the layer at hand
  std::vector<std::uint32_t> column_slots;           ///< [columns]
  std::vector<kernels::matmul_args> products;        ///< of one parallel region

 private:
  std::uint64_t place(const engine::model_spec& spec, const host_extents& extents, std::byte* base);
  host_workspace() = default;
  std::unique_ptr<std::byte[]> memory_;
};

/// Keys and values in pages, as kernels/host/attention.hpp says; pages of all layers of a group have the same
/// ids.
class host_kv_cache {
 public:
  /// Throws accelerator_failure where memory is to be shared and cannot be (gpu/memory/memfd_driver.hpp).
  host_kv_cache(const engine::model_spec& spec, engine::kv_types types, const kv_groups& groups,
                const engine::cache_source& source = {});

  [[nodiscard]] engine::kv_types types() const noexcept { return types_; }
  /// Of a layer that has a cache.
  [[nodiscard]] kernels::attention_cache layer(std::uint32_t layer) noexcept {
    return {base_ + parts_[2 * layer].offset, base_ + parts_[2 * layer + 1].offset};
  }
  /// Of a cache with source.share.
  [[nodiscard]] const engine::shared_cache& exported() const noexcept { return exported_; }
  void copy(std::uint32_t group, const engine::page_copy& what) noexcept;
  void clear(std::uint32_t group, engine::kv_page page) noexcept;

 private:
  /// The keys or the values of a layer.
  struct part {
    std::uint64_t offset, row_bytes;
    std::uint32_t kv_heads, group;
  };
  void add(std::uint32_t group, std::uint32_t kv_heads, std::uint64_t row_bytes, std::uint32_t pages);

  engine::kv_types types_;
  std::vector<part> parts_;
  std::uint64_t bytes_ = 0;
  std::byte* base_ = nullptr;            ///< in one of
  std::unique_ptr<std::byte[]> memory_;  ///< of this process alone
  arena_mapping shared_;
  engine::file_descriptor descriptor_;  ///< of shared_, for others
  engine::shared_cache exported_;
};

}  // namespace orcd::gpu
