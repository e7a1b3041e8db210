// Products of prompts, whose activations are images of operand B (kernels/images/image_matmul.hpp): when a
// pass takes them, and from which buffers.
#include <cuda_fp16.h>

#include <algorithm>

#include "gpu/cuda/cuda_forward.hpp"
#include "gpu/plan/expert_groups_of.hpp"
#include "kernels/images/image_matmul.hpp"
#include "kernels/layer/experts.hpp"
#include "kernels/product/packed_matmul.hpp"

namespace orcd::gpu {
namespace {

/// Dense products of fewer columns, and experts with fewer pairs each, take the throughput product. With 256
/// columns both take about as long; with 512 the product of prompts is mostly faster. For experts it is by
/// itself faster from eight pairs each on, but a whole step of 64 sequences of gpt-oss-20b, which has eight
/// pairs an expert, took a fifth longer with it (H200).
constexpr std::uint32_t image_columns_least = 384;
constexpr std::uint32_t expert_pairs_least = 48;

/// Cycles that a multiprocessor waits for an image to be made of rows, of what it reads and writes at 2 TB/s.
std::uint64_t making_cycles(const kernels::packed_matmul_args& args, std::uint32_t columns) {
  return 4'000 + std::uint64_t{columns} * args.x_stride * 4 / 1'200;
}

bool takes_images(const kernels::packed_matmul_args& args) {
  if (kernels::image_tile_columns(args) == 0) return false;
  if (!is_paired(args)) return true;
  return args.w[0].format == args.w[1].format && args.w[0].rows % kernels::group_cols == 0;
}

}  // namespace

/// Whether these products together, each of which leaves the next one's input, are estimated to be faster as
/// products of prompts, for which an image of the first one's input is made of rows.
bool cuda_forward::images_best(std::initializer_list<kernels::packed_matmul_args> products,
                               std::uint32_t columns) const {
  const kernels::packed_matmul_args& first = *products.begin();
  const std::uint64_t bytes = std::uint64_t{kernels::image_columns(columns)} * first.x_stride * 2;
  const auto takes = [&](const auto& args) {
    return takes_images(args) && is_throughput_product(args, columns);
  };
  const bool has_rows = first.x_stride % kernels::group_cols == 0 && first.x_divisor == 1;
  if (columns < image_columns_least || adapts() || !has_rows || bytes > layout_.image_bytes ||
      !std::all_of(products.begin(), products.end(), takes))
    return false;
  std::uint64_t as_images = making_cycles(first, columns);
  std::uint64_t as_rows = 0;
  for (const kernels::packed_matmul_args& args : products) {
    kernels::tiled_matmul_args product;
    product.matmul = args;
    product.matmul.columns = columns;
    as_images += kernels::image_matmul_cycles(product.matmul);
    std::uint64_t fewest = kernels::packed_matmul_cycles(product);
    product.matmul.x_order = kernels::half_order::packed;
    fewest = std::min(fewest, kernels::packed_matmul_cycles(product));
    if (__builtin_add_overflow(as_rows, fewest, &as_rows)) as_rows = ~std::uint64_t{0};
  }
  return as_images < as_rows;
}

/// Makes an image of a product's input and lets the product read it.
void cuda_forward::make_image(kernels::packed_matmul_args& args) const {
  kernels::to_image_args make;
  make.x = args.x;
  make.x_stride = args.x_stride;
  make.x_order = args.x_order;
  make.columns = args.columns;
  make.image = at<__half>(layout_.image);
  make.image_columns = kernels::image_columns(args.columns);
  ORCD_CUDA(kernels::launch_to_image(make, stream_));
  args.x = make.image;
  args.x_stride = make.image_columns;
}

/// One product, of rows in args.x.
void cuda_forward::multiply_image(const kernels::packed_matmul_args& args) const {
  kernels::image_matmul_args product;
  product.matmul = args;
  make_image(product.matmul);
  ORCD_CUDA(kernels::launch_image_matmul(product, stream_));
}

/// Gate, up and down; what gate and up leave is an image already.
void cuda_forward::dense_ffn_images(std::uint32_t layer, std::uint32_t columns) {
  kernels::image_matmul_args gate_up;
  kernels::image_matmul_args down;
  gate_up.matmul = args_.gate_up_of(layer);
  down.matmul = args_.down_of(layer);
  gate_up.matmul.columns = down.matmul.columns = columns;
  take_norm(gate_up.matmul, weights_.layers[layer].ffn_norm, columns, nullptr);
  make_image(gate_up.matmul);
  gate_up.matmul.act_stride = down.matmul.x_stride = gate_up.matmul.x_stride;
  ORCD_CUDA(kernels::launch_image_matmul(gate_up, stream_));
  ORCD_CUDA(kernels::launch_image_matmul(down, stream_));
}

/// Whether a layer's experts have so many of the pairs that products of prompts are faster, and the image of
/// their input has room where their outputs will lie.
bool cuda_forward::experts_take_images(std::uint32_t layer, std::uint32_t columns) const {
  const std::uint32_t pairs = columns * spec_.experts_used;
  const kernels::packed_matmul_args gate_up = args_.expert_gate_up_of(layer, pairs);
  const kernels::packed_matmul_args down = args_.expert_down_of(layer, pairs);
  const std::uint64_t image = kernels::sorted_image_columns(pairs, spec_.experts) *
                              kernels::padded_cols(spec_.embedding) * sizeof(__half);
  return pairs >= expert_pairs_least * spec_.experts && takes_images(gate_up) && takes_images(down) &&
         down.w[0].cols == gate_up.w[0].rows &&
         image <= std::uint64_t{pairs} * spec_.embedding * sizeof(float);
}

/// As expert_ffn().
kernels::half_order cuda_forward::expert_ffn_images(std::uint32_t layer, std::uint32_t columns) {
  const std::uint32_t pairs = columns * spec_.experts_used;
  kernels::image_matmul_args gate_up;
  kernels::image_matmul_args down;
  gate_up.matmul = args_.expert_gate_up_of(layer, pairs);
  down.matmul = args_.expert_down_of(layer, pairs);
  kernels::route_args route = args_.route_of(layer, columns);
  route.normed = args_.norm_outside(gate_up.matmul);
  route.normed_order =
      shared_takes_packed(layer, columns) ? kernels::half_order::packed : kernels::half_order::natural;
  if (spec_.router_norm) {
    route.normed = nullptr;
    gate_up.matmul.x_order = route.normed_order;
    take_norm(gate_up.matmul, weights_.layers[layer].ffn_norm_2, columns, nullptr);
  }
  ORCD_CUDA(kernels::launch_route(route, expert_groups_of(spec_), stream_));

  auto* const tiles = at<kernels::image_tile>(layout_.tiles);
  const kernels::sort_experts_args sort{
      at<std::int32_t>(layout_.chosen),
      pairs,
      spec_.experts,
      at<std::int32_t>(layout_.order),
      nullptr,
      at<std::int32_t>(layout_.tile_count),
      std::min(kernels::image_tile_columns(gate_up.matmul), kernels::image_tile_columns(down.matmul))};
  ORCD_CUDA(kernels::launch_sort_experts(sort, tiles, stream_));
  const auto stride = static_cast<std::uint32_t>(kernels::sorted_image_columns(pairs, spec_.experts));
  const std::uint32_t tiles_max = kernels::sorted_tiles_max(pairs, spec_.experts, sort.tile_columns);
  kernels::to_image_args make;
  make.x = gate_up.matmul.x;
  make.x_stride = gate_up.matmul.x_stride;
  make.x_order = route.normed_order;
  make.order = sort.order;
  make.x_divisor = spec_.experts_used;
  make.tiles = tiles;
  make.tile_count = sort.tile_count;
  make.tiles_max = tiles_max;
  make.image = at<__half>(layout_.expert_out);  // down writes there when it has been read
  make.image_columns = stride;
  ORCD_CUDA(kernels::launch_to_image(make, stream_));
  gate_up.matmul.x = make.image;
  gate_up.matmul.x_stride = gate_up.matmul.act_stride = down.matmul.x_stride = stride;
  for (kernels::image_matmul_args* args : {&gate_up, &down}) {
    args->order = sort.order;
    args->tiles = tiles;
    args->tile_count = sort.tile_count;
    args->tiles_max = tiles_max;
    args->tile_columns = sort.tile_columns;
    ORCD_CUDA(kernels::launch_image_matmul(*args, stream_));
  }
  ORCD_CUDA(kernels::launch_combine_experts(args_.combine_of(columns), stream_));
  return route.normed_order;
}

}  // namespace orcd::gpu
