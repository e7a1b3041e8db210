#include "gpu/cuda/media/cuda_tower_layers.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/ensure.hpp"
#include "gpu/cuda/cuda_error.hpp"
#include "kernels/layer/embed_norm.hpp"
#include "kernels/layer/stream.hpp"
#include "kernels/tower/tower_rows.hpp"

namespace orcd::gpu {
namespace {

kernels::tower_activation form_of(engine::ffn_activation activation) {
  switch (activation) {
    case engine::ffn_activation::gelu_tanh: return kernels::tower_activation::tanh;
    case engine::ffn_activation::gelu: return kernels::tower_activation::exact;
    case engine::ffn_activation::gelu_sigmoid: return kernels::tower_activation::sigmoid;
    case engine::ffn_activation::swiglu: return kernels::tower_activation::silu_gate;
    case engine::ffn_activation::geglu_tanh: return kernels::tower_activation::tanh_gate;
    case engine::ffn_activation::swiglu_clamped:
    case engine::ffn_activation::relu_squared:
    case engine::ffn_activation::squared_relu: break;  // no tower has them
  }
  ORCD_ENSURE(false);
  return kernels::tower_activation::exact;
}

kernels::turned_pairs pairs_of(engine::tower_rotation rotation) {
  switch (rotation) {
    case engine::tower_rotation::joined: return kernels::turned_pairs::halves;
    case engine::tower_rotation::parted: return kernels::turned_pairs::quarters;
    case engine::tower_rotation::adjacent: return kernels::turned_pairs::neighbours;
    case engine::tower_rotation::none: break;
  }
  return kernels::turned_pairs::none;
}

}  // namespace

template <class Do>
void cuda_tower_layers::each_part(std::uint32_t patches, Do what) {
  for (std::uint32_t first = 0; first < patches; first += tower_part_columns)
    what(part{first, std::min(tower_part_columns, patches - first)});
}

__half* cuda_tower_layers::normed_of(const part& of) const noexcept {
  return at_.normed + std::uint64_t{of.first} * kernels::padded_cols(spec_.width);
}

void cuda_tower_layers::run(const cuda_tower_layer& layer, std::size_t number, const tower_view& view) const {
  each_part(view.patches(), [&](const part& of) {
    normalise(layer.norm_1, layer.norm_1_bias, of);
    project_heads(layer, of);
    prepare_heads(layer, of, view.patches());
  });
  attend(spec_.window > 0 && number % spec_.full_every != 0, view);
  each_part(view.patches(), [&](const part& of) {
    add_half(layer.out, normed_of(of), layer.post_norm_1, of);
    normalise(layer.norm_2, layer.norm_2_bias, of);
    feed_forward(layer, of);
  });
}

void cuda_tower_layers::normalise(const float* weight, const float* bias, const part& of) const {
  const float* const x = at_.stream + std::uint64_t{of.first} * spec_.width;
  const std::uint32_t stride = kernels::padded_cols(spec_.width);
  const auto eps = static_cast<float>(spec_.eps);
  if (spec_.norm == engine::norm_kind::rms) {
    ORCD_CUDA(kernels::launch_norm_to_half(
        {x, weight, spec_.width, of.count, nullptr, eps, normed_of(of), stride}, stream_));
    return;
  }
  kernels::state_to_half_args args;
  args.x = x;
  args.weight = weight;
  args.bias = bias;
  args.width = spec_.width;
  args.columns = of.count;
  args.eps = eps;
  args.out = normed_of(of);
  args.out_stride = stride;
  ORCD_CUDA(kernels::launch_state_to_half(args, stream_));
}

void cuda_tower_layers::normalise_stream(const float* weight, const float* bias, std::uint32_t rows) const {
  kernels::norm_rows_args args;
  args.x = at_.stream;
  args.weight = weight;
  args.bias = bias;
  args.width = spec_.width;
  args.rows = rows;
  args.eps = static_cast<float>(spec_.eps);
  args.centred = spec_.norm == engine::norm_kind::layer;
  ORCD_CUDA(kernels::launch_norm_rows(args, stream_));
}

/// Q | K | V of each patch in one row.
void cuda_tower_layers::project_heads(const cuda_tower_layer& layer, const part& of) const {
  const std::uint32_t width = spec_.width, row = 3 * width;
  const __half* const x = normed_of(of);
  if (layer.qkv) return multiply(layer.qkv, x, at_.floats, row, of.count);
  const bool clips = layer.q.inputs || layer.k.inputs || layer.v.inputs || layer.q.outputs ||
                     layer.k.outputs || layer.v.outputs;
  if (clips) {
    multiply(layer.q, x, at_.floats, row, of.count);
    multiply(layer.k, x, at_.floats + width, row, of.count);
    return multiply(layer.v, x, at_.floats + 2 * width, row, of.count);
  }
  kernels::packed_matmul_args product;
  product.matrices = 0;
  for (const cuda_tower_matrix* const matrix : {&layer.q, &layer.k, &layer.v}) {
    product.w[product.matrices] = matrix->weight;
    product.bias[product.matrices++] = matrix->bias;
  }
  product.x = x;
  product.x_stride = kernels::padded_cols(width);
  product.out = at_.floats;
  product.out_stride = row;
  products_.multiply(product, of.count);
}

void cuda_tower_layers::prepare_heads(const cuda_tower_layer& layer, const part& of,
                                      std::uint32_t patches) const {
  const std::uint64_t values =
      std::uint64_t{spec_.heads} * patches * kernels::tower_head_width(spec_.head_width());
  kernels::tower_heads_args args;
  args.qkv = at_.floats;
  args.columns = of.count;
  args.first = of.first;
  args.positions = patches;
  args.heads = spec_.heads;
  args.width = spec_.head_width();
  args.norms = spec_.head_norms;
  args.q_norm = layer.q_norm;
  args.k_norm = layer.k_norm;
  args.eps = static_cast<float>(spec_.eps);
  args.pairs = pairs_of(spec_.rotation);
  args.table = at_.turns;
  args.q = at_.heads;
  args.k = at_.heads + values;
  args.v = at_.heads + 2 * values;
  ORCD_CUDA(kernels::launch_tower_heads(args, stream_));
}

/// What the heads give replaces the normed rows, whose padding stays zero.
void cuda_tower_layers::attend(bool windows, const tower_view& view) const {
  const std::uint64_t values =
      std::uint64_t{spec_.heads} * view.patches() * kernels::tower_head_width(spec_.head_width());
  const double scale = spec_.attention_scale != 0.0
                           ? spec_.attention_scale
                           : 1.0 / std::sqrt(static_cast<double>(spec_.head_width()));
  kernels::tower_attention_args args;
  args.q = at_.heads;
  args.k = at_.heads + values;
  args.v = at_.heads + 2 * values;
  args.positions = view.patches();
  args.heads = spec_.heads;
  args.width = spec_.head_width();
  args.ranges = windows ? at_.ranges : nullptr;
  args.count = windows ? view.ranges : 0;
  args.scale = static_cast<float>(scale);
  args.out = at_.normed;
  args.out_stride = kernels::padded_cols(spec_.width);
  ORCD_CUDA(kernels::launch_tower_attention(args, stream_));
}

void cuda_tower_layers::feed_forward(const cuda_tower_layer& layer, const part& of) const {
  const bool gated = engine::has_gate(spec_.activation);
  const std::uint32_t row = gated ? 2 * spec_.ffn : spec_.ffn;
  if (gated) multiply(layer.gate, normed_of(of), at_.floats, row, of.count);
  multiply(layer.up, normed_of(of), at_.floats + (gated ? spec_.ffn : 0), row, of.count);
  kernels::activate_rows_args args;
  args.x = at_.floats;
  args.width = spec_.ffn;
  args.rows = of.count;
  args.form = form_of(spec_.activation);
  args.out = at_.halves;
  args.out_stride = kernels::padded_cols(spec_.ffn);
  ORCD_CUDA(kernels::launch_activate_rows(args, stream_));
  add_half(layer.down, at_.halves, layer.post_norm_2, of);
}

/// What a half gives goes to the stream, through its limits and its norm where it has such.
void cuda_tower_layers::add_half(const cuda_tower_matrix& matrix, const __half* x, const float* post_norm,
                                 const part& of) const {
  float* const stream = at_.stream + std::uint64_t{of.first} * spec_.width;
  if (post_norm == nullptr) return multiply(matrix, x, stream, spec_.width, of.count, true);
  multiply(matrix, x, at_.floats, spec_.width, of.count);
  kernels::add_normed_args add;
  add.x = stream;
  add.h = at_.floats;
  add.weight = post_norm;
  add.width = spec_.width;
  add.columns = of.count;
  add.eps = static_cast<float>(spec_.eps);
  ORCD_CUDA(kernels::launch_add_normed(add, stream_));
}

/// `adds`: to what `y` holds, whose rows are as long as the matrix has outputs.
void cuda_tower_layers::multiply(const cuda_tower_matrix& matrix, const __half* x, float* y,
                                 std::uint32_t y_stride, std::uint32_t rows, bool adds) const {
  const std::uint32_t stride = kernels::padded_cols(matrix.weight.cols);
  if (matrix.inputs) {
    ORCD_CUDA(kernels::launch_clip_halves(
        {x, at_.clipped, stride, matrix.weight.cols, rows, matrix.inputs->low, matrix.inputs->high},
        stream_));
    x = at_.clipped;
  }
  kernels::packed_matmul_args product;
  product.w[0] = matrix.weight;
  product.bias[0] = matrix.bias;
  product.x = x;
  product.x_stride = stride;
  product.out = adds && matrix.outputs ? at_.floats : y;
  product.out_stride = y_stride;
  if (adds && !matrix.outputs) product.output = kernels::matmul_output::add;
  products_.multiply(product, rows);
  if (!matrix.outputs) return;
  ORCD_CUDA(kernels::launch_clip_rows({product.out, y_stride, matrix.weight.rows, rows, matrix.outputs->low,
                                       matrix.outputs->high, adds ? y : nullptr},
                                      stream_));
}

}  // namespace orcd::gpu
