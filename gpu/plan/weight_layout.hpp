// Where each tensor of a model lies in VRAM and how it gets there, planned from shapes alone: no CUDA
// call, so that the plan is known before anything is allocated and can be tested without a GPU.
// Source: M0-W-1220, M0-W-1011.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/model/model_spec.hpp"
#include "kernels/product/packed_matrix.hpp"
#include "kernels/product/ternary_matrix.hpp"

namespace orcd::gpu {

/// Every matrix is packed; fused QKV and gate|up tensors become separate matrices. Pointers into the
/// arena; null where the model has no such tensor.
struct cuda_layer_weights {
  /// Instead of the packed ones, in a model with integer activations.
  struct {
    kernels::ternary_matrix q, k, v, o, gate, up, down;
  } ternary;
  kernels::packed_matrix q, k, v, o;
  kernels::packed_matrix gate, up, down;                       ///< dense layers
  kernels::packed_matrix expert_gate, expert_up, expert_down;  ///< stacks: data of expert 0, expert_stride
  /// Of latents: the factors of Q, or `q` alone, the cached row, and stacks of a matrix a head.
  kernels::packed_matrix q_a, q_b, kv_a, k_b, v_b;
  const float* q_a_norm = nullptr;
  const float* kv_a_norm = nullptr;
  const float* attn_norm = nullptr;
  const float* q_bias = nullptr;
  const float* k_bias = nullptr;
  const float* v_bias = nullptr;
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* o_bias = nullptr;
  const float* sinks = nullptr;
  const float* ffn_norm = nullptr;
  const float* attn_norm_bias = nullptr;
  const float* ffn_norm_bias = nullptr;
  const float* attn_post_norm = nullptr;  ///< norms of what the halves give
  const float* ffn_post_norm = nullptr;
  const float* attn_sub_norm = nullptr;
  const float* ffn_sub_norm = nullptr;
  const float* attn_output_norm = nullptr;  ///< norms after each half
  const float* attn_output_norm_bias = nullptr;
  const float* layer_output_norm = nullptr;
  const float* layer_output_norm_bias = nullptr;
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;
  const float* router = nullptr;  ///< [experts][embedding], f32 rows
  const float* router_bias = nullptr;
  const float* choice_bias = nullptr;
  kernels::packed_matrix shared_gate, shared_up, shared_down;
  const float* shared_router = nullptr;
  const float* expert_gate_bias = nullptr;  ///< [experts][ffn]
  const float* expert_up_bias = nullptr;
  const float* expert_down_bias = nullptr;  ///< [experts][embedding]
  /// Of layers with a dense part beside their experts: norms of the experts' input, and of what both give.
  const float* ffn_norm_2 = nullptr;
  const float* ffn_post_norm_1 = nullptr;
  const float* ffn_post_norm_2 = nullptr;
  const float* router_norm = nullptr;
  const float* expert_scale = nullptr;  ///< [experts]
  /// What a layer makes of its own inputs (model_spec::layer_inputs).
  kernels::packed_matrix layer_input_gate, layer_input_proj;
  const float* layer_input_norm = nullptr;
  /// Of layers with other mixers than attention, as engine::layer_weights has them; beta and decay in one
  /// where their rows fill tiles.
  kernels::packed_matrix mix_in, mix_gate, mix_beta, mix_decay, mix_beta_decay, mix_out;
  const float* conv = nullptr;  ///< [channels][taps]
  const float* conv_bias = nullptr;
  const float* decay_rate = nullptr;
  const float* decay_bias = nullptr;
  const float* skip = nullptr;
  const float* mix_norm = nullptr;
};

struct cuda_weights {
  kernels::packed_matrix embedding;
  kernels::packed_matrix output;  ///< equal to embedding when tied
  const float* output_norm = nullptr;
  const float* output_norm_bias = nullptr;
  const float* positions = nullptr;    ///< [positions][embedding], f32 rows
  const float* token_types = nullptr;  ///< [token types][embedding], f32 rows
  const float* embedding_norm = nullptr;
  const float* embedding_norm_bias = nullptr;
  kernels::packed_matrix layer_input_embd;  ///< [vocab][layers * layer_inputs]
  kernels::packed_matrix layer_input_proj;  ///< [layers * layer_inputs][embedding]
  const float* layer_input_norm = nullptr;  ///< [layer_inputs]
  std::vector<cuda_layer_weights> layers;
};

/// Columns a packed matrix may have: activations of one token must fit into a block's shared memory.
inline constexpr std::uint64_t packed_cols_max = 65'536;

/// Consecutive rows of one tensor and their place: a whole tensor, one expert of a stack, or one of the
/// matrices of a fused tensor.
struct weight_piece {
  std::string_view name;           ///< of the tensor
  const std::byte* raw = nullptr;  ///< first row, in the mapped file
  std::uint64_t row_bytes = 0;     ///< of the file
  engine::ggml_type type = engine::ggml_type::f32;
  /// Of the blocks that go to the device: those of the file, or others.
  engine::ggml_type sent = engine::ggml_type::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  float factor = 1.0F;  ///< multiplies every value of the file
  bool packed = false;  ///< else stored as f32 rows without padding, or
  bool codes = false;   ///< as rows of ternary codes
  kernels::packed_format format = kernels::packed_format::f32;
  std::uint64_t offset = 0;            ///< from the start of the arena
  std::uint64_t row_scale_offset = 0;  ///< integer formats and MXFP4

  /// Bytes of a row when it is sent to the device.
  [[nodiscard]] std::uint64_t staged_row_bytes() const noexcept {
    return engine::row_bytes(engine::traits_of(sent), cols);
  }
};

struct weight_layout {
  cuda_weights weights;  ///< pointers start at the base that was given
  std::vector<weight_piece> pieces;
  std::uint64_t bytes = 0;  ///< of the arena

  /// What tells arenas of other models, or packed in another way, apart (gpu/memory/arena_hash.hpp).
  [[nodiscard]] std::string hash() const;
};

/// The format that a block type is packed into.
[[nodiscard]] kernels::packed_format packed_format_of(engine::ggml_type type) noexcept;

/// The blocks in which rows go to the device to be packed: types of few bits as Q4_0 with the same values.
[[nodiscard]] engine::ggml_type sent_type_of(engine::ggml_type type) noexcept;

/// `base` is the arena's address, or 0 when only sizes matter. An error (model_load_failed) names the
/// tensor whose type or shape no kernel takes.
[[nodiscard]] engine::result<weight_layout> lay_out_weights(const engine::model& m, std::uintptr_t base);

}  // namespace orcd::gpu
