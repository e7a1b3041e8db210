// The forward pass on the GPU: chunks of prompts and tokens of decoding sequences, all columns of one pass,
// as a list of kernel launches; decode steps of one sequence (or two) as one kernel. Parameters that change
// from step to step lie in device memory, so that a captured graph of a decode step serves every later one.
// Branches on model_spec fields only. GPU thread only (M0-W-1420).
//
//   embed --> residual stream, f32
//   each layer:  norm, QKV --> rope, KV cache --> attention --> output product, added to the residual stream
//                norm, gate and up --> activation --> down product, added; or router, experts, weighted sum
//   head:        norm, product --> logits (or the top token's key)
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "engine/accelerator.hpp"
#include "engine/lora/adapter.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_kv_pages.hpp"
#include "gpu/cuda/cuda_layer_args.hpp"
#include "gpu/cuda/cuda_layer_inputs.hpp"
#include "gpu/cuda/cuda_recurrence.hpp"
#include "gpu/cuda/cuda_resources.hpp"
#include "gpu/cuda/cuda_weights.hpp"
#include "gpu/cuda/media/given_media.hpp"
#include "gpu/cuda/vram_arena.hpp"
#include "gpu/layer_tap.hpp"
#include "gpu/plan/decode_program_plan.hpp"
#include "gpu/plan/work_layout.hpp"
#include "gpu/sequence_form.hpp"
#include "kernels/attention/attention_args.hpp"
#include "kernels/attention/latent_args.hpp"
#include "kernels/decode_program/decode_program.hpp"
#include "kernels/layer/experts_args.hpp"
#include "kernels/layer/norm_to_int8.hpp"

namespace orcd::gpu {

class cuda_adapters;

/// What adapters' A multiply: one of the two, or neither for the token of a column.
struct lora_input {
  const __half* halves = nullptr;
  const float* floats = nullptr;
  std::uint32_t stride = 0;
};
/// A matrix that adapters may change.
struct lora_output {
  engine::lora_target target{};
  std::uint32_t y_at = 0;  ///< its first value in a row of the product's output
};
/// Of gate and up, or of the matrix of both, in a row that begins with gate.
[[nodiscard]] constexpr std::array<lora_output, 3> gate_up_outputs(std::uint32_t width) noexcept {
  using engine::lora_target;
  return {{{lora_target::ffn_gate_up, 0}, {lora_target::ffn_gate, 0}, {lora_target::ffn_up, width}}};
}

/// A product of the decode program, and the matrices that adapters may change in it.
struct adapted_product {
  std::uint32_t phase = 0;
  std::uint32_t layer = 0;
  std::uint32_t in = 0;  ///< values of its input
  std::vector<lora_output> outputs;
};

/// What a pass's columns are: first those of prompts, then those of decoding sequences. Only attention makes
/// a difference.
struct pass_columns {
  /// Columns of each prompt's chunk: consecutive positions of a sequence of its own.
  std::span<const std::uint32_t> chunks = {};
  std::uint32_t decodes = 0;  ///< columns of decoding sequences
  /// Some of those are of one sequence, at positions in a row; otherwise each is of another.
  bool in_a_row = false;
  std::uint32_t given = 0;  ///< rows of media that stand in the place of columns' tokens, all of prompts
};

class cuda_forward {
 public:
  /// `work` and `cache` hold at least work_layout::bytes and kv_layout::bytes; both are zero, but for pages
  /// of a cache that another engine has used.
  cuda_forward(const engine::model& m, const cuda_weights& weights, const cuda_extents& extents,
               const vram_arena& work, const vram_arena& cache, cudaStream_t stream, layer_tap tap = {},
               const given_media& media = {});

  /// Steps add what these say; they outlive the object. Throws accelerator_failure.
  void use_adapters(cuda_adapters& adapters);
  /// Tokens that are never sampled.
  void ban(std::span<const engine::token_id> tokens);

  /// Enqueues a pass that has prompts, its columns being described in steps(). Row i of the logits, of `rows`
  /// rows, is that of the column sample_rows()[i].
  void prefill(const pass_columns& pass, std::uint32_t rows);
  /// How the tokens of the next chunks' sequence attend to each other; kept until it is set again.
  void set_form(const sequence_form& form) noexcept { form_ = form; }
  /// Copies the states after the last layer of the last chunk's columns from `first` on, before any final
  /// norm: [to.size() / embedding][embedding]. Waits for the chunk.
  void copy_states(std::uint32_t first, std::span<float> to) const;
  /// Enqueues one token of each of `sequences` sequences; row i of the logits is that of sequence i.
  void decode(std::uint32_t sequences);
  /// The same for `columns` tokens, of which consecutive ones may be of one sequence, at positions in a row.
  void decode_in_a_row(std::uint32_t columns);
  [[nodiscard]] cuda_kv_pages& pages() noexcept { return pages_; }
  [[nodiscard]] cuda_recurrence& recurrence() noexcept { return recurrence_; }
  /// The decode steps that are one kernel: [0] of one sequence, [1] of two, as far as the kernel can do the
  /// model.
  [[nodiscard]] std::span<const kernels::decode_program> programs() const noexcept { return programs_; }
  /// Whether the next decode step, of so many sequences and what their adapters are, is one kernel.
  [[nodiscard]] bool is_one_kernel(std::uint32_t sequences) const noexcept;

  [[nodiscard]] kernels::step_token* steps() const noexcept { return at<kernels::step_token>(layout_.steps); }
  [[nodiscard]] const given_media& media() const noexcept { return media_; }
  [[nodiscard]] std::int32_t* sample_rows() const noexcept { return at<std::int32_t>(layout_.sample_rows); }
  [[nodiscard]] const float* logits() const noexcept { return at<float>(layout_.logits); }
  /// A bit for each id that is never sampled; null if there is none.
  [[nodiscard]] const std::uint32_t* banned() const noexcept {
    return bans_ ? at<std::uint32_t>(layout_.banned) : nullptr;
  }
  /// The key of the most likely token (kernels::sample_args::keys) of a decode step of so many sequences;
  /// null if the step does not compute it. The reader zeroes it.
  [[nodiscard]] unsigned long long* keys(std::uint32_t sequences) const noexcept;

 private:
  template <class T>
  [[nodiscard]] T* at(std::uint64_t offset) const noexcept {
    return work_.at<T>(offset);
  }
  void embed(std::uint32_t columns);
  void scale(float* values, std::uint64_t count, double by, double cap) const;
  void scale_embeddings(std::uint32_t columns) const;
  void enter_half(const float* norm, const float* bias, std::uint32_t columns,
                  const std::int32_t* residual_rows);
  void norm_heads(std::uint32_t layer, std::uint32_t columns) const;
  void prepare_queries(std::uint32_t layer, std::uint32_t columns) const;
  void leave_half(kernels::packed_matmul_args& args, engine::lora_target target, std::uint32_t layer,
                  const float* post_norm, std::uint32_t columns, std::optional<const float*> next);
  [[nodiscard]] bool enters_next() const noexcept;
  void add_half(const float* h, const float* post_norm, std::uint32_t columns, float scale,
                std::optional<const float*> next);
  void leave_layer(std::uint32_t layer, kernels::packed_matmul_args& down, std::uint32_t columns);
  void experts_beside(std::uint32_t layer, std::uint32_t columns);
  void activated_ffn(std::uint32_t layer, std::uint32_t columns);
  void shared_ffn(std::uint32_t layer, std::uint32_t columns, kernels::half_order normed);
  void other_layer(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass);
  void attention_half(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass);
  void gated_qkv(std::uint32_t layer, std::uint32_t columns);
  void gate_attended(std::uint32_t layer, std::uint32_t columns);
  void recurrent_half(std::uint32_t layer, std::uint32_t columns);
  void other_ffn(std::uint32_t layer, std::uint32_t columns, bool entered);
  void ungated_shared(std::uint32_t layer, std::uint32_t columns, kernels::packed_matmul_args& down);
  void ungated_experts(std::uint32_t layer, std::uint32_t columns);
  void square_relu(std::uint32_t width, std::uint32_t rows, __half* out) const;
  void run(std::uint32_t columns, const pass_columns& pass);
  void write_program();
  void plan_layers(decode_program_plan& plan);
  void plan_ternary_layers(decode_program_plan& plan) const;
  /// Of a step that is one kernel; tells it of the sequence's adapters.
  [[nodiscard]] const kernels::decode_program& program_of_step(std::uint32_t sequences);
  void attention(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass,
                 kernels::packed_matmul_args& qkv, const float* norm);
  void add_positions(std::uint32_t columns);
  void post_norm(const float* weight, const float* bias, std::uint32_t columns);
  void ungated_ffn(std::uint32_t layer, std::uint32_t columns);
  void run_post_norm(std::uint32_t columns);
  void attend(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass);
  void write_head_ids();
  void sort_heads(std::uint32_t columns);
  void multiply_heads(const kernels::packed_matrix& matrices, std::uint64_t from, std::uint64_t to,
                      std::uint32_t columns);
  void project_latent_query(std::uint32_t layer, std::uint32_t columns);
  void project_latents(std::uint32_t layer, std::uint32_t columns);
  void attend_latents(std::uint32_t columns, const kernels::latent_cache& cache, std::uint32_t first,
                      bool spread) const;
  void latent_half(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass);
  [[nodiscard]] kernels::device_int8_rows integers(std::uint32_t width) const;
  [[nodiscard]] kernels::norm_to_int8_args norm_of_residual(const float* weight, std::uint32_t columns) const;
  [[nodiscard]] kernels::norm_to_int8_args norm_of_attended(std::uint32_t layer, std::uint32_t columns) const;
  [[nodiscard]] kernels::norm_to_int8_args norm_of_activated(std::uint32_t layer,
                                                             std::uint32_t columns) const;
  [[nodiscard]] kernels::ternary_matmul_args ternary_qkv_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::ternary_matmul_args ternary_gate_up_of(std::uint32_t layer) const;
  [[nodiscard]] kernels::ternary_matmul_args added_to_residual(const kernels::ternary_matrix& w) const;
  void multiply_integers(const kernels::norm_to_int8_args& input, kernels::ternary_matmul_args product);
  void half_layer(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass);
  void ternary_layer(std::uint32_t layer, std::uint32_t columns, const pass_columns& pass);
  void dense_ffn(std::uint32_t layer, std::uint32_t columns);
  kernels::half_order expert_ffn(std::uint32_t layer, std::uint32_t columns);
  [[nodiscard]] bool adapts() const noexcept;
  void prepare_adapters(std::uint32_t columns);
  [[nodiscard]] std::uint32_t shared_bytes_left() const noexcept;
  void add_lora(std::span<const lora_output> outputs, std::uint32_t layer, const lora_input& x, float* y,
                std::uint32_t y_stride, std::uint32_t columns, const std::int32_t* rows = nullptr);
  [[nodiscard]] std::array<lora_output, 4> qkv_outputs(std::uint32_t layer) const noexcept;
  void add_qkv_lora(std::uint32_t layer, const lora_input& x, std::uint32_t columns);
  void add_gate_up_lora(std::uint32_t layer, const lora_input& x, float* out, std::uint32_t columns);
  void add_residual_lora(engine::lora_target target, std::uint32_t layer, const lora_input& x,
                         std::uint32_t columns);
  void gate_up(std::uint32_t layer, const float* norm, std::uint32_t columns,
               kernels::half_order order = kernels::half_order::natural);
  [[nodiscard]] bool shared_takes_packed(std::uint32_t layer, std::uint32_t columns) const;
  [[nodiscard]] bool experts_take_packed(std::uint32_t layer, std::uint32_t columns) const;
  [[nodiscard]] lora_input keep_floats(kernels::norm_to_int8_args& norm) const;
  void sort_experts(std::uint32_t pairs, std::uint32_t tile_columns, kernels::tiled_matmul_args& gate_up,
                    kernels::tiled_matmul_args& down);
  void multiply_experts(const kernels::tiled_matmul_args& args);
  [[nodiscard]] bool images_best(std::initializer_list<kernels::packed_matmul_args> products,
                                 std::uint32_t columns) const;
  void make_image(kernels::packed_matmul_args& args) const;
  void multiply_image(const kernels::packed_matmul_args& args) const;
  void dense_ffn_images(std::uint32_t layer, std::uint32_t columns);
  [[nodiscard]] bool experts_take_images(std::uint32_t layer, std::uint32_t columns) const;
  kernels::half_order expert_ffn_images(std::uint32_t layer, std::uint32_t columns);
  void head(std::uint32_t rows, const std::int32_t* residual_rows);
  void multiply_in_parts(const kernels::tiled_matmul_args& product);
  void take_norm(kernels::packed_matmul_args& args, const float* norm, std::uint32_t columns,
                 const std::int32_t* residual_rows);
  void multiply(kernels::packed_matmul_args& args, const float* norm, std::uint32_t columns);
  [[nodiscard]] static std::uint32_t columns_that_fit(const kernels::packed_matmul_args& args);
  [[nodiscard]] static bool is_throughput_product(const kernels::packed_matmul_args& args,
                                                  std::uint32_t columns);
  [[nodiscard]] static kernels::half_order best_order(
      std::initializer_list<kernels::packed_matmul_args> products, std::uint32_t columns);
  void tap(std::string_view name, std::uint32_t layer, const float* values, std::uint64_t count);
  void tap(std::string_view name, std::uint32_t layer, const __half* values, std::uint64_t count);

  const engine::model& model_;
  const engine::model_spec& spec_;
  const cuda_weights& weights_;
  cuda_extents extents_;
  work_layout layout_;
  const vram_arena& work_;
  cudaStream_t stream_;
  cuda_kv_pages pages_;
  given_media media_;
  cuda_layer_args args_;
  cuda_layer_inputs layer_inputs_;
  cuda_recurrence recurrence_;
  kernels::tiled_matmul_args heads_;  ///< how the step's products of single heads go through their pairs
  std::vector<kernels::decode_program> programs_;
  std::vector<adapted_product> adapted_products_;           ///< of programs_[0]
  std::optional<kernels::decode_program> adapted_program_;  ///< of one sequence, with room for its adapters
  bool program_has_head_ = false;                           ///< for one sequence
  sequence_form form_;
  cuda_adapters* adapters_ = nullptr;
  bool bans_ = false;
  layer_tap tap_;
};

}  // namespace orcd::gpu
