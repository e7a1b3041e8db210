#include "gpu/plan/weight_layout.hpp"

#include <optional>
#include <string>

#include "gpu/memory/arena_hash.hpp"
#include "gpu/plan/arena_plan.hpp"

namespace orcd::gpu {
namespace {

using engine::ggml_type;
using engine::tensor_view;
using kernels::packed_matrix;

std::uint64_t row_bytes_of(const tensor_view& tensor) {
  return engine::row_bytes(engine::traits_of(tensor.type), tensor.cols());
}

class layout_builder {
 public:
  layout_builder(const engine::model& m, std::uintptr_t base) : model_(m), base_(base) {}

  engine::result<weight_layout> build();

 private:
  struct row_range {
    std::uint64_t first, count;
  };

  packed_matrix matrix(const tensor_view& tensor) { return matrix(tensor, {0, tensor.rows()}); }
  packed_matrix matrix(const tensor_view& tensor, row_range rows);
  packed_matrix joined(const tensor_view& first, const tensor_view& second);
  packed_matrix stack(const tensor_view& tensor);
  packed_matrix stack(const tensor_view& tensor, row_range rows);
  void add_packed(const tensor_view& tensor, std::uint64_t first_row, const packed_matrix& to,
                  std::uint64_t offset, std::uint64_t row_scale_offset);
  kernels::ternary_matrix codes(const tensor_view& tensor, row_range rows);
  kernels::ternary_matrix codes(const tensor_view& tensor) { return codes(tensor, {0, tensor.rows()}); }
  const float* vector(const tensor_view& tensor);
  const float* vector(const tensor_view& tensor, std::uint64_t first, std::uint64_t count);
  const float* float_rows(const tensor_view& tensor);
  packed_matrix shape_of(const tensor_view& tensor, std::uint64_t rows);

  void attention(const engine::layer_weights& from, const engine::layer_spec& spec, cuda_layer_weights& to);
  void mixer(const engine::layer_weights& from, cuda_layer_weights& to);
  void dense_ffn(const engine::layer_weights& from, const engine::layer_spec& spec, cuda_layer_weights& to);
  void experts(const engine::layer_weights& from, const engine::layer_spec& spec, cuda_layer_weights& to);

  template <class T>
  const T* address(std::uint64_t offset) const {
    return reinterpret_cast<const T*>(base_ + offset);
  }
  void refuse(const tensor_view& tensor, const std::string& why) {
    if (!problem_) problem_ = "tensor " + std::string(tensor.name) + " " + why;
  }

  const engine::model& model_;
  std::uintptr_t base_;
  arena_plan plan_;
  weight_layout layout_;
  std::optional<std::string> problem_;  ///< the first
};

/// Checks a matrix against the kernels' limits.
packed_matrix layout_builder::shape_of(const tensor_view& tensor, std::uint64_t rows) {
  constexpr std::uint64_t rows_max = 1ULL << 30;
  if (tensor.cols() > packed_cols_max || rows > rows_max) {
    refuse(tensor, "has " + std::to_string(rows) + " rows of " + std::to_string(tensor.cols()) +
                       " columns; the CUDA kernels take up to " + std::to_string(rows_max) + " rows of " +
                       std::to_string(packed_cols_max));
  }
  packed_matrix out;
  out.rows = static_cast<std::uint32_t>(rows);
  out.cols = static_cast<std::uint32_t>(tensor.cols());
  out.format = packed_format_of(tensor.type);
  return out;
}

void layout_builder::add_packed(const tensor_view& tensor, std::uint64_t first_row, const packed_matrix& to,
                                std::uint64_t offset, std::uint64_t row_scale_offset) {
  const std::uint64_t row_bytes = row_bytes_of(tensor);
  const float factor = tensor.factor_of(first_row / tensor.rows());
  if (factor != 1.0F && kernels::is_float_format(to.format))
    refuse(tensor, "has a scale beside it, which the CUDA kernels take of quantized matrices alone");
  layout_.pieces.push_back({.name = tensor.name,
                            .raw = tensor.data + first_row * row_bytes,
                            .row_bytes = row_bytes,
                            .type = tensor.type,
                            .sent = sent_type_of(tensor.type),
                            .rows = to.rows,
                            .cols = to.cols,
                            .factor = factor,
                            .packed = true,
                            .format = to.format,
                            .offset = offset,
                            .row_scale_offset = row_scale_offset});
}

packed_matrix layout_builder::matrix(const tensor_view& tensor, row_range rows) {
  if (!tensor || problem_) return {};
  packed_matrix out = shape_of(tensor, rows.count);
  if (problem_) return {};
  const std::uint64_t offset = plan_.reserve(kernels::packed_bytes(out.format, out.rows, out.cols));
  const std::uint64_t scales = kernels::packed_row_scales(out.format, out.rows);
  const std::uint64_t scale_offset = scales > 0 ? plan_.reserve(scales * sizeof(float)) : 0;
  out.data = address<std::byte>(offset);
  if (scales > 0) out.row_scale = address<float>(scale_offset);
  add_packed(tensor, rows.first, out, offset, scale_offset);
  return out;
}

/// The rows of both as one matrix; none where they do not lie one behind the other as such.
packed_matrix layout_builder::joined(const tensor_view& first, const tensor_view& second) {
  const bool fit = first && second && first.type == second.type && first.cols() == second.cols() &&
                   first.rows() % kernels::tile_rows == 0;
  if (!fit || problem_) return {};
  packed_matrix out = shape_of(first, first.rows() + second.rows());
  if (problem_) return {};
  std::uint64_t offset = plan_.reserve(kernels::packed_bytes(out.format, out.rows, out.cols));
  const std::uint64_t scales = kernels::packed_row_scales(out.format, out.rows);
  std::uint64_t scale_offset = scales > 0 ? plan_.reserve(scales * sizeof(float)) : 0;
  out.data = address<std::byte>(offset);
  if (scales > 0) out.row_scale = address<float>(scale_offset);
  for (const tensor_view* part : {&first, &second}) {
    packed_matrix rows = out;
    rows.rows = static_cast<std::uint32_t>(part->rows());
    add_packed(*part, 0, rows, offset, scale_offset);
    offset += kernels::packed_bytes(out.format, rows.rows, out.cols);
    scale_offset += kernels::packed_row_scales(out.format, rows.rows) * sizeof(float);
  }
  return out;
}

kernels::ternary_matrix layout_builder::codes(const tensor_view& tensor, row_range rows) {
  if (!tensor || problem_) return {};
  if (tensor.type != ggml_type::i2_s && tensor.type != ggml_type::tq1_0 && tensor.type != ggml_type::tq2_0) {
    refuse(tensor, "has type " + std::string(engine::traits_of(tensor.type).name) +
                       "; the CUDA kernels need I2_S, TQ1_0 or TQ2_0 there");
    return {};
  }
  const packed_matrix shape = shape_of(tensor, rows.count);
  if (problem_) return {};
  const std::uint64_t bytes = rows.count * (tensor.cols() / 4);
  const std::uint64_t offset = plan_.reserve(bytes);
  layout_.pieces.push_back({.name = tensor.name,
                            .raw = tensor.data + rows.first * row_bytes_of(tensor),
                            .row_bytes = row_bytes_of(tensor),
                            .type = tensor.type,
                            .sent = ggml_type::i2_s,
                            .rows = shape.rows,
                            .cols = shape.cols,
                            .codes = true,
                            .offset = offset});
  return {address<std::byte>(offset), shape.rows, shape.cols, tensor.code_scale.value_or(0.0F)};
}

packed_matrix layout_builder::stack(const tensor_view& tensor) {
  return stack(tensor, {0, tensor ? tensor.rows() : 0});
}

/// Those rows of each expert, which starts at a multiple of the alignment, so that one stride reaches them
/// all.
packed_matrix layout_builder::stack(const tensor_view& tensor, row_range rows) {
  if (!tensor || problem_) return {};
  packed_matrix out = shape_of(tensor, rows.count);
  if (problem_) return {};
  out.expert_stride = vram_aligned(kernels::packed_bytes(out.format, out.rows, out.cols));
  const std::uint64_t scales = kernels::packed_row_scales(out.format, out.rows);
  out.row_scale_stride = static_cast<std::uint32_t>(scales);
  const std::uint64_t offset = plan_.reserve(tensor.experts() * out.expert_stride);
  const std::uint64_t scale_offset =
      scales > 0 ? plan_.reserve(tensor.experts() * scales * sizeof(float)) : 0;
  out.data = address<std::byte>(offset);
  if (scales > 0) out.row_scale = address<float>(scale_offset);
  for (std::uint64_t expert = 0; expert < tensor.experts(); ++expert) {
    add_packed(tensor, expert * tensor.rows() + rows.first, out, offset + expert * out.expert_stride,
               scale_offset + expert * scales * sizeof(float));
  }
  return out;
}

const float* layout_builder::vector(const tensor_view& tensor) {
  return vector(tensor, 0, tensor ? tensor.elements() : 0);
}

const float* layout_builder::vector(const tensor_view& tensor, std::uint64_t first, std::uint64_t count) {
  if (!tensor || problem_) return nullptr;
  if (tensor.type != ggml_type::f32) {
    refuse(tensor, "has type " + std::string(engine::traits_of(tensor.type).name) +
                       "; the CUDA kernels need F32 for norms, biases and sinks");
    return nullptr;
  }
  // Long vectors (the biases of all experts) as rows of one expert each, so that they can be sliced.
  const std::uint64_t cols = first == 0 && count == tensor.elements() ? tensor.cols() : count;
  if (cols > packed_cols_max) {
    refuse(tensor, "has " + std::to_string(cols) + " values; the CUDA kernels take up to " +
                       std::to_string(packed_cols_max));
    return nullptr;
  }
  const std::uint64_t offset = plan_.reserve(count * sizeof(float));
  layout_.pieces.push_back({.name = tensor.name,
                            .raw = tensor.data + first * sizeof(float),
                            .row_bytes = cols * sizeof(float),
                            .rows = static_cast<std::uint32_t>(count / cols),
                            .cols = static_cast<std::uint32_t>(cols),
                            .offset = offset});
  return address<float>(offset);
}

/// In f32 whatever its type in the file: the router, because which weights are read depends on it, and tables
/// of which a step adds rows.
const float* layout_builder::float_rows(const tensor_view& tensor) {
  if (!tensor || problem_) return nullptr;
  const packed_matrix shape = shape_of(tensor, tensor.rows());
  if (problem_) return nullptr;
  const std::uint64_t offset = plan_.reserve(tensor.elements() * sizeof(float));
  layout_.pieces.push_back({.name = tensor.name,
                            .raw = tensor.data,
                            .row_bytes = row_bytes_of(tensor),
                            .type = tensor.type,
                            .rows = shape.rows,
                            .cols = shape.cols,
                            .factor = tensor.factor,
                            .offset = offset});
  return address<float>(offset);
}

void layout_builder::attention(const engine::layer_weights& from, const engine::layer_spec& spec,
                               cuda_layer_weights& to) {
  const std::uint64_t q = spec.q_rows();
  const std::uint64_t k = spec.k_rows();
  const std::uint64_t v = spec.v_rows();
  to.attn_norm = vector(from.attn_norm);
  to.attn_sub_norm = vector(from.attn_sub_norm);
  if (model_.spec.integer_activations) {
    const bool fused = static_cast<bool>(from.attn_qkv);
    to.ternary.q = fused ? codes(from.attn_qkv, {0, q}) : codes(from.attn_q);
    to.ternary.k = fused ? codes(from.attn_qkv, {q, k}) : codes(from.attn_k);
    to.ternary.v = fused ? codes(from.attn_qkv, {q + k, v}) : codes(from.attn_v);
    to.ternary.o = codes(from.attn_output);
    return;
  }
  if (from.attn_qkv) {
    to.q = matrix(from.attn_qkv, {0, q});
    to.k = matrix(from.attn_qkv, {q, k});
    to.v = matrix(from.attn_qkv, {q + k, v});
    to.q_bias = vector(from.attn_qkv_bias, 0, q);
    to.k_bias = vector(from.attn_qkv_bias, q, k);
    to.v_bias = vector(from.attn_qkv_bias, q + k, v);
  } else {
    to.q = matrix(from.attn_q);
    to.k = matrix(from.attn_k);
    to.v = matrix(from.attn_v);
    to.q_bias = vector(from.attn_q_bias);
    to.k_bias = vector(from.attn_k_bias);
    to.v_bias = vector(from.attn_v_bias);
  }
  to.q_a = matrix(from.attn_q_a);
  to.q_a_norm = vector(from.attn_q_a_norm);
  to.q_b = matrix(from.attn_q_b);
  to.kv_a = matrix(from.attn_kv_a);
  to.kv_a_norm = vector(from.attn_kv_a_norm);
  to.k_b = stack(from.attn_k_b);
  to.v_b = stack(from.attn_v_b);
  to.q_norm = vector(from.attn_q_norm);
  to.k_norm = vector(from.attn_k_norm);
  to.sinks = vector(from.attn_sinks);
  to.o = matrix(from.attn_output);
  to.o_bias = vector(from.attn_output_bias);
}

void layout_builder::mixer(const engine::layer_weights& from, cuda_layer_weights& to) {
  to.mix_in = matrix(from.mix_in);
  to.mix_gate = matrix(from.mix_gate);
  to.mix_beta_decay =
      from.mix_beta_decay ? matrix(from.mix_beta_decay) : joined(from.mix_beta, from.mix_decay);
  if (to.mix_beta_decay.rows == 0) {
    to.mix_beta = matrix(from.mix_beta);
    to.mix_decay = matrix(from.mix_decay);
  }
  to.conv = float_rows(from.conv);
  to.conv_bias = vector(from.conv_bias);
  to.decay_rate = vector(from.decay_rate);
  to.decay_bias = vector(from.decay_bias);
  to.skip = vector(from.skip);
  to.mix_norm = vector(from.mix_norm);
  to.mix_out = matrix(from.mix_out);
}

void layout_builder::dense_ffn(const engine::layer_weights& from, const engine::layer_spec& spec,
                               cuda_layer_weights& to) {
  to.ffn_sub_norm = vector(from.ffn_sub_norm);
  if (model_.spec.integer_activations) {
    to.ternary.gate = codes(from.ffn_gate);
    to.ternary.up = codes(from.ffn_up);
    to.ternary.down = codes(from.ffn_down);
    return;
  }
  if (from.ffn_gate_up) {
    to.gate = matrix(from.ffn_gate_up, {0, spec.ffn_size});
    to.up = matrix(from.ffn_gate_up, {spec.ffn_size, spec.ffn_size});
  } else {
    to.gate = matrix(from.ffn_gate);
    to.up = matrix(from.ffn_up);
  }
  to.gate_bias = vector(from.ffn_gate_bias);
  to.up_bias = vector(from.ffn_up_bias);
  to.down = matrix(from.ffn_down);
  to.down_bias = vector(from.ffn_down_bias);
}

void layout_builder::experts(const engine::layer_weights& from, const engine::layer_spec& spec,
                             cuda_layer_weights& to) {
  to.router = float_rows(from.router);
  to.router_bias = vector(from.router_bias);
  to.choice_bias = vector(from.choice_bias);
  to.shared_gate = matrix(from.shared_gate);
  to.shared_up = matrix(from.shared_up);
  to.shared_down = matrix(from.shared_down);
  to.shared_router = vector(from.shared_router);
  to.router_norm = vector(from.router_norm);
  to.expert_scale = vector(from.expert_scale);
  to.ffn_norm_2 = vector(from.ffn_norm_2);
  to.ffn_post_norm_1 = vector(from.ffn_post_norm_1);
  to.ffn_post_norm_2 = vector(from.ffn_post_norm_2);
  const std::uint64_t width = spec.width_of_expert();
  const bool fused = static_cast<bool>(from.expert_gate_up);
  to.expert_gate = fused ? stack(from.expert_gate_up, {0, width}) : stack(from.expert_gate);
  to.expert_gate_bias = vector(from.expert_gate_bias);
  to.expert_up = fused ? stack(from.expert_gate_up, {width, width}) : stack(from.expert_up);
  to.expert_up_bias = vector(from.expert_up_bias);
  to.expert_down = stack(from.expert_down);
  to.expert_down_bias = vector(from.expert_down_bias);
}

engine::result<weight_layout> layout_builder::build() {
  const engine::model_weights& from = model_.weights;
  cuda_weights& to = layout_.weights;
  to.embedding = matrix(from.token_embd);
  to.layers.resize(from.layers.size());
  for (std::size_t i = 0; i < from.layers.size(); ++i) {
    const engine::layer_spec& spec = model_.spec.layers[i];
    attention(from.layers[i], spec, to.layers[i]);
    mixer(from.layers[i], to.layers[i]);
    to.layers[i].ffn_norm = vector(from.layers[i].ffn_norm);
    to.layers[i].attn_norm_bias = vector(from.layers[i].attn_norm_bias);
    to.layers[i].ffn_norm_bias = vector(from.layers[i].ffn_norm_bias);
    to.layers[i].attn_post_norm = vector(from.layers[i].attn_post_norm);
    to.layers[i].ffn_post_norm = vector(from.layers[i].ffn_post_norm);
    to.layers[i].attn_output_norm = vector(from.layers[i].attn_output_norm);
    to.layers[i].attn_output_norm_bias = vector(from.layers[i].attn_output_norm_bias);
    to.layers[i].layer_output_norm = vector(from.layers[i].layer_output_norm);
    to.layers[i].layer_output_norm_bias = vector(from.layers[i].layer_output_norm_bias);
    to.layers[i].layer_input_gate = matrix(from.layers[i].layer_input_gate);
    to.layers[i].layer_input_proj = matrix(from.layers[i].layer_input_proj);
    to.layers[i].layer_input_norm = vector(from.layers[i].layer_input_norm);
    const bool has_experts = spec.ffn == engine::ffn_kind::moe;
    if (!has_experts || model_.spec.dense_and_experts) dense_ffn(from.layers[i], spec, to.layers[i]);
    if (has_experts) experts(from.layers[i], spec, to.layers[i]);
  }
  to.layer_input_embd = matrix(from.layer_input_embd);
  to.layer_input_proj = matrix(from.layer_input_proj);
  to.layer_input_norm = vector(from.layer_input_norm);
  to.output_norm = vector(from.output_norm);
  to.output_norm_bias = vector(from.output_norm_bias);
  to.positions = float_rows(from.position_embd);
  to.token_types = float_rows(from.token_types);
  to.embedding_norm = vector(from.token_embd_norm);
  to.embedding_norm_bias = vector(from.token_embd_norm_bias);
  to.output = from.output.data == from.token_embd.data ? to.embedding : matrix(from.output);
  if (problem_) return engine::error(engine::errc::model_load_failed, *problem_);
  layout_.bytes = plan_.bytes();
  return std::move(layout_);
}

}  // namespace

kernels::packed_format packed_format_of(ggml_type type) noexcept {
  using kernels::packed_format;
  switch (type) {
    case ggml_type::q4_0: return packed_format::q4_0;
    case ggml_type::q4_1: return packed_format::q4_1;
    case ggml_type::q5_0: return packed_format::q5_0;
    case ggml_type::q5_1: return packed_format::q5_1;
    case ggml_type::q8_0: return packed_format::q8_0;
    case ggml_type::q4_k: return packed_format::q4_k;
    case ggml_type::q5_k: return packed_format::q5_k;
    case ggml_type::q6_k: return packed_format::q6_k;
    case ggml_type::mxfp4: return packed_format::mxfp4;
    case ggml_type::q2_k: return packed_format::q2_k;
    case ggml_type::q3_k: return packed_format::q3_k;
    case ggml_type::iq4_nl: return packed_format::iq4_nl;
    case ggml_type::iq4_xs: return packed_format::iq4_xs;
    case ggml_type::nvfp4: return packed_format::nvfp4;
    case ggml_type::iq3_s: return packed_format::iq3_s;
    case ggml_type::iq3_xxs: return packed_format::iq3_xxs;
    case ggml_type::iq2_s: return packed_format::iq2_s;
    case ggml_type::iq2_xs: return packed_format::iq2_xs;
    case ggml_type::iq2_xxs: return packed_format::iq2_xxs;
    // Sent as blocks of Q4_0 that hold the same values.
    case ggml_type::tq1_0:
    case ggml_type::tq2_0:
    case ggml_type::i2_s:
    case ggml_type::q1_0:
    case ggml_type::q2_0: return packed_format::q4_0;
    case ggml_type::f16: return packed_format::f16;
    case ggml_type::bf16: return packed_format::bf16;
    case ggml_type::f32: return packed_format::f32;
  }
  return packed_format::f32;
}

ggml_type sent_type_of(ggml_type type) noexcept {
  switch (type) {
    case ggml_type::tq1_0:
    case ggml_type::tq2_0:
    case ggml_type::i2_s:
    case ggml_type::q1_0:
    case ggml_type::q2_0: return ggml_type::q4_0;
    default: return type;
  }
}

/// The number is that of how repack.cu packs a format: another packing is another number.
std::string weight_layout::hash() const {
  std::vector<placed_tensor> placed;
  for (const weight_piece& piece : pieces) {
    const std::uint64_t size = piece.packed ? kernels::packed_bytes(piece.format, piece.rows, piece.cols)
                                            : piece.rows * piece.staged_row_bytes();
    const auto form = piece.packed  ? engine::traits_of(piece.type).name
                      : piece.codes ? std::string_view("ternary codes")
                                    : std::string_view("f32 rows");
    placed.push_back(
        {piece.name, form, {piece.cols, piece.rows, piece.row_scale_offset, 1}, piece.offset, size});
  }
  return layout_hash("packed 1", placed, bytes);
}

engine::result<weight_layout> lay_out_weights(const engine::model& m, std::uintptr_t base) {
  return layout_builder(m, base).build();
}

}  // namespace orcd::gpu
