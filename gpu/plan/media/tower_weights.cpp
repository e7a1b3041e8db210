#include "gpu/plan/media/tower_weights.hpp"

#include <string>
#include <utility>

#include "engine/media/prepare_picture.hpp"
#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/media/view_places.hpp"
#include "gpu/plan/tensor_matrix.hpp"

namespace orcd::gpu {
namespace {

using engine::ggml_type;
using engine::tensor_view;

constexpr std::uint32_t pixel_values = 3 * 256;

class tower_layout_builder {
 public:
  tower_layout_builder(const engine::tower& t, std::uintptr_t base) : tower_(t), base_(base) {}

  engine::result<tower_weight_layout> build();

 private:
  struct shape {
    std::uint64_t rows, cols;
  };

  template <class T>
  [[nodiscard]] const T* address(std::uint64_t offset) const {
    return reinterpret_cast<const T*>(base_ + offset);
  }
  kernels::packed_matrix packed(std::string_view name, const std::byte* raw, ggml_type type, shape of);
  kernels::packed_matrix packed(const tensor_view& tensor);
  const float* floats(std::string_view name, const std::byte* raw, ggml_type type, shape of);
  const float* vector(const tensor_view& tensor);
  /// What is not in the file as it is used: `make` gives `of.rows * of.cols` values.
  template <class Make>
  const std::byte* keep(Make make) {
    if (base_ == 0) return nullptr;
    out_.made.push_back(make());
    return reinterpret_cast<const std::byte*>(out_.made.back().data());
  }
  cuda_tower_matrix matrix(const tensor_view& weight, const tensor_view& bias) {
    return {packed(weight), vector(bias), {}, {}};
  }
  cuda_tower_matrix matrix(const engine::tower_matrix& from) {
    return {packed(from.weight), vector(from.bias), from.inputs, from.outputs};
  }
  cuda_tower_merger merger(const engine::tower_merger& from);
  void layer(const engine::tower_layer& from, cuda_tower_layer& to);
  void before_layers();
  void behind_layers();

  const engine::tower& tower_;
  std::uintptr_t base_;
  arena_plan plan_;
  tower_weight_layout out_;
  std::optional<std::string> problem_;  ///< the first
};

kernels::packed_matrix tower_layout_builder::packed(std::string_view name, const std::byte* raw,
                                                    ggml_type type, shape of) {
  if (of.cols > packed_cols_max && !problem_) {
    problem_ = "tensor " + std::string(name) + " has rows of " + std::to_string(of.cols) +
               " values; the CUDA kernels take up to " + std::to_string(packed_cols_max);
  }
  const ggml_type sent = type == ggml_type::f32 ? ggml_type::f16 : type;
  kernels::packed_matrix matrix;
  matrix.rows = static_cast<std::uint32_t>(of.rows);
  matrix.cols = static_cast<std::uint32_t>(of.cols);
  matrix.format = packed_format_of(sent);
  const std::uint64_t offset = plan_.reserve(kernels::packed_bytes(matrix.format, of.rows, of.cols));
  const std::uint64_t scales = kernels::packed_row_scales(matrix.format, of.rows);
  const std::uint64_t scale_offset = scales > 0 ? plan_.reserve(scales * sizeof(float)) : 0;
  matrix.data = address<std::byte>(offset);
  if (scales > 0) matrix.row_scale = address<float>(scale_offset);
  out_.pieces.push_back({.name = name,
                         .raw = raw,
                         .row_bytes = engine::row_bytes(engine::traits_of(type), of.cols),
                         .type = type,
                         .sent = sent,
                         .rows = matrix.rows,
                         .cols = matrix.cols,
                         .packed = true,
                         .format = matrix.format,
                         .offset = offset,
                         .row_scale_offset = scale_offset});
  return matrix;
}

kernels::packed_matrix tower_layout_builder::packed(const tensor_view& tensor) {
  if (!tensor) return {};
  return packed(tensor.name, tensor.data, tensor.type, {tensor.rows(), tensor.cols()});
}

const float* tower_layout_builder::floats(std::string_view name, const std::byte* raw, ggml_type type,
                                          shape of) {
  const std::uint64_t offset = plan_.reserve(of.rows * of.cols * sizeof(float));
  out_.pieces.push_back({.name = name,
                         .raw = raw,
                         .row_bytes = engine::row_bytes(engine::traits_of(type), of.cols),
                         .type = type,
                         .rows = static_cast<std::uint32_t>(of.rows),
                         .cols = static_cast<std::uint32_t>(of.cols),
                         .offset = offset});
  return address<float>(offset);
}

const float* tower_layout_builder::vector(const tensor_view& tensor) {
  if (!tensor) return nullptr;
  return floats(tensor.name, tensor.data, tensor.type, {1, tensor.elements()});
}

cuda_tower_merger tower_layout_builder::merger(const engine::tower_merger& from) {
  return {vector(from.norm), vector(from.norm_bias), matrix(from.first, from.first_bias),
          matrix(from.second, from.second_bias)};
}

void tower_layout_builder::layer(const engine::tower_layer& from, cuda_tower_layer& to) {
  to.norm_1 = vector(from.norm_1);
  to.norm_1_bias = vector(from.norm_1_bias);
  to.norm_2 = vector(from.norm_2);
  to.norm_2_bias = vector(from.norm_2_bias);
  to.post_norm_1 = vector(from.post_norm_1);
  to.post_norm_2 = vector(from.post_norm_2);
  to.qkv = matrix(from.qkv);
  to.q = matrix(from.q);
  to.k = matrix(from.k);
  to.v = matrix(from.v);
  to.q_norm = vector(from.q_norm);
  to.k_norm = vector(from.k_norm);
  to.out = matrix(from.out);
  to.gate = matrix(from.gate);
  to.up = matrix(from.up);
  to.down = matrix(from.down);
  if (from.deepstack) to.deepstack = merger(*from.deepstack);
}

void tower_layout_builder::before_layers() {
  const engine::tower_spec& spec = tower_.spec;
  const engine::tower_weights& from = tower_.weights;
  cuda_tower_weights& to = out_.weights;
  if (spec.two_frames) {
    // A still picture is in both frames.
    const std::byte* const sum = keep([&] { return summed_matrices(from.patch, from.second_frame); });
    to.patch = {packed("both frames", sum, ggml_type::f32, {from.patch.rows(), from.patch.cols()}),
                vector(from.patch_bias),
                {},
                {}};
  } else {
    to.patch = matrix(from.patch, from.patch_bias);
  }
  to.pre_norm = vector(from.pre_norm);
  to.conv_1 = matrix(from.conv_1, from.conv_1_bias);
  to.conv_2 = matrix(from.conv_2, from.conv_2_bias);
  if (from.positions)
    to.positions = floats(from.positions.name, from.positions.data, from.positions.type,
                          {from.positions.rows(), from.positions.cols()});
  if (!spec.sound) {
    const std::byte* const values = keep([&] {
      std::vector<float> out(pixel_values);
      engine::fill_pixel_values(spec.pictures, out);
      return out;
    });
    to.pixel_values = floats("values of bytes", values, ggml_type::f32, {1, pixel_values});
  }
  if (spec.rotation == engine::tower_rotation::none) return;
  const std::byte* const rates = keep([&] { return turn_rates(spec); });
  to.turn_rates = floats("rates of turns", rates, ggml_type::f32, {1, spec.head_width() / 4 * 2});
}

void tower_layout_builder::behind_layers() {
  const engine::tower_spec& spec = tower_.spec;
  const engine::tower_weights& from = tower_.weights;
  cuda_tower_weights& to = out_.weights;
  to.post_norm = vector(from.post_norm);
  to.post_norm_bias = vector(from.post_norm_bias);
  to.std_bias = vector(from.std_bias);
  to.std_scale = vector(from.std_scale);
  to.merge_norm = vector(from.merge_norm);
  if (spec.merge == engine::tower_merge::average && !from.merge_norm) {
    const std::byte* const ones = keep([&] { return std::vector<float>(spec.width, 1.0F); });
    to.merge_norm = floats("no weights", ones, ggml_type::f32, {1, spec.width});
  }
  to.reduction.weight = packed(from.reduction);
  to.merger = merger(from.merger);
  if (!spec.transposed_projection) {
    to.projection.weight = packed(from.projection);
    return;
  }
  const std::byte* const rows = keep([&] { return turned_matrix(from.projection); });
  to.projection.weight =
      packed(from.projection.name, rows, ggml_type::f32, {from.projection.cols(), from.projection.rows()});
}

engine::result<tower_weight_layout> tower_layout_builder::build() {
  before_layers();
  out_.weights.layers.resize(tower_.weights.layers.size());
  for (std::size_t i = 0; i < out_.weights.layers.size(); ++i)
    layer(tower_.weights.layers[i], out_.weights.layers[i]);
  behind_layers();
  if (problem_) return engine::error(engine::errc::model_load_failed, *problem_, "mmproj");
  out_.bytes = plan_.bytes();
  return std::move(out_);
}

}  // namespace

engine::result<tower_weight_layout> lay_out_tower(const engine::tower& t, std::uintptr_t base) {
  return tower_layout_builder(t, base).build();
}

}  // namespace orcd::gpu
