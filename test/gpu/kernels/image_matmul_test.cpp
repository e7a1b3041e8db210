// The throughput product of prompts: images hold what rows hold, and every format's product has the bits of
// the other products, dense, paired and of experts, whatever the tiles.
#include "kernels/images/image_matmul.hpp"

#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/layer/experts.hpp"
#include "test/gpu/kernels/packed_matrices.hpp"

namespace orcd::test {
namespace {

using kernels::image_columns;
using kernels::image_tile;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// The image of all columns of an input.
struct dense_image {
  dense_image(const test_input& x, std::uint32_t count, kernels::half_order order)
      : columns(image_columns(count)), halves(std::size_t{columns} * x.stride) {
    kernels::to_image_args args;
    args.x = (order == kernels::half_order::packed ? x.packed : x.device)->data();
    args.x_stride = x.stride;
    args.x_order = order;
    args.columns = count;
    args.image = halves.data();
    args.image_columns = columns;
    BOOST_REQUIRE_EQUAL(kernels::launch_to_image(args, nullptr), 0);
  }
  void give(kernels::packed_matmul_args& a) const {
    a.x = halves.data();
    a.x_stride = columns;
  }
  std::uint32_t columns;
  device_array<__half> halves;
};

/// Columns of k: whole chunks where the format has no others; else a chunk with one group, or with three.
std::vector<std::uint32_t> widths_of(const format_pair& format) {
  if (engine::traits_of(format.file).block_elems > 64) return {256, 768};
  if (engine::traits_of(format.file).block_elems == 64) return {320, 704};
  return {64, 288, 736, 1024};
}

std::vector<float> random_bias(std::uint32_t rows) {
  std::mt19937_64 random(rows);
  std::vector<float> out(rows);
  for (float& b : out) b = random_unit(random);
  return out;
}

/// A stack of experts: each a matrix of its own too.
struct experts_of {
  experts_of(const format_pair& format, std::uint32_t count, std::uint32_t rows, std::uint32_t cols,
             std::uint64_t seed)
      : stride((kernels::packed_bytes(format.packed, rows, cols) + 255) / 256 * 256),
        scales(static_cast<std::uint32_t>(kernels::packed_row_scales(format.packed, rows))),
        data(stride * count),
        row_scales(std::max(1U, scales * count)),
        bias(std::span<const float>(random_bias(rows * count))) {
    for (std::uint32_t e = 0; e < count; ++e) {
      const test_matrix one(format, rows, cols, seed + e);
      copy(data.data() + e * stride, one.view.data, kernels::packed_bytes(format.packed, rows, cols));
      if (scales > 0) copy(row_scales.data() + e * scales, one.view.row_scale, scales * sizeof(float));
      view = one.view;
    }
    view.data = data.data();
    view.expert_stride = stride;
    view.row_scale = scales > 0 ? row_scales.data() : nullptr;
    view.row_scale_stride = scales;
  }
  static void copy(void* to, const void* from, std::size_t bytes) {
    BOOST_REQUIRE_EQUAL(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  }
  std::uint64_t stride;
  std::uint32_t scales;
  device_array<std::byte> data;
  device_array<float> row_scales;
  device_array<float> bias;
  kernels::packed_matrix view;
};

/// Pairs of `tokens` tokens and two experts each, sorted for both products.
struct sorted_pairs {
  sorted_pairs(std::uint32_t tokens, std::uint32_t experts, std::uint32_t most)
      : pairs(2 * tokens),
        chosen(pick(pairs, experts)),
        order(pairs),
        tiles(pairs),
        count(1),
        images(pairs),
        image_count(1),
        columns(static_cast<std::uint32_t>(kernels::sorted_image_columns(pairs, experts))),
        tiles_max(kernels::sorted_tiles_max(pairs, experts, most)) {
    kernels::sort_experts_args sort{chosen.data(), pairs,        experts, order.data(),
                                    tiles.data(),  count.data(), 64};
    BOOST_REQUIRE_EQUAL(kernels::launch_sort_experts(sort, nullptr), 0);
    sort.tile_columns = most;
    sort.tile_count = image_count.data();
    BOOST_REQUIRE_EQUAL(kernels::launch_sort_experts(sort, images.data(), nullptr), 0);
  }
  /// One expert has most, one none.
  static device_array<std::int32_t> pick(std::uint32_t pairs, std::uint32_t experts) {
    std::vector<std::int32_t> out(pairs);
    for (std::uint32_t i = 0; i < pairs; ++i)
      out[i] = static_cast<std::int32_t>(i % 3 == 0 ? 0 : (i * 7 + i / 3) % (experts - 1));
    return device_array<std::int32_t>{std::span<const std::int32_t>(out)};
  }
  void sort(kernels::tiled_matmul_args& a) const {
    a.order = order.data();
    a.tiles = tiles.data();
    a.tile_count = count.data();
    a.tiles_max = kernels::sorted_tiles_max(pairs, 8, 64);
    a.tile_columns = 64;
    a.matmul.columns = pairs;
    a.matmul.experts = chosen.data();
  }
  void sort(kernels::image_matmul_args& a, std::uint32_t most) const {
    a.order = order.data();
    a.tiles = images.data();
    a.tile_count = image_count.data();
    a.tiles_max = tiles_max;
    a.tile_columns = most;
  }

  std::uint32_t pairs;
  device_array<std::int32_t> chosen, order;
  device_array<kernels::expert_tile> tiles;
  device_array<std::int32_t> count;
  device_array<image_tile> images;
  device_array<std::int32_t> image_count;
  std::uint32_t columns, tiles_max;
};

/// Gate, up and down of some experts.
struct feed_forward {
  static constexpr std::uint32_t experts = 6;

  explicit feed_forward(const format_pair& format)
      : k_format(engine::traits_of(format.file).block_elems > 64),
        width(k_format ? 512 : 320),
        inner(k_format ? 256 : 192),
        most(kernels::image_tile_columns(format.packed)),
        gate(format, experts, inner, width, 100),
        up(format, experts, inner, width, 200),
        down(format, experts, width, inner, 300) {}

  [[nodiscard]] kernels::packed_matmul_args gate_up(kernels::matmul_output output) const {
    kernels::packed_matmul_args a;
    a.w[0] = gate.view;
    a.w[1] = up.view;
    a.bias[0] = gate.bias.data();
    a.bias[1] = up.bias.data();
    a.matrices = 2;
    a.output = output;
    return a;
  }
  [[nodiscard]] kernels::packed_matmul_args down_to(const device_array<float>& out) const {
    kernels::packed_matmul_args a;
    a.w[0] = down.view;
    a.bias[0] = down.bias.data();
    a.out = out.data();
    a.out_stride = width;
    return a;
  }
  /// By the throughput product.
  void run_rows(const sorted_pairs& s, const test_input& x, kernels::matmul_output output,
                const device_array<float>& out) const {
    const device_array<__half> activated(std::size_t{s.pairs} * inner);
    kernels::tiled_matmul_args first{gate_up(output)};
    kernels::tiled_matmul_args second{down_to(out)};
    first.matmul.x = x.device->data();
    first.matmul.x_stride = x.stride;
    first.matmul.x_divisor = 2;
    first.matmul.act = activated.data();
    first.matmul.act_stride = inner;
    second.matmul.x = activated.data();
    second.matmul.x_stride = inner;
    for (kernels::tiled_matmul_args* args : {&first, &second}) {
      s.sort(*args);
      BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(*args, nullptr), 0);
    }
    BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
  }
  void run_images(const sorted_pairs& s, const test_input& x, kernels::matmul_output output,
                  const device_array<float>& out) const {
    const device_array<__half> image(std::size_t{s.columns} * width);
    const device_array<__half> act(std::size_t{s.columns} * inner);
    kernels::to_image_args make{x.packed->data(), x.stride, kernels::half_order::packed};
    make.order = s.order.data();
    make.x_divisor = 2;
    make.tiles = s.images.data();
    make.tile_count = s.image_count.data();
    make.tiles_max = s.tiles_max;
    make.image = image.data();
    make.image_columns = s.columns;
    BOOST_REQUIRE_EQUAL(kernels::launch_to_image(make, nullptr), 0);
    kernels::image_matmul_args first{gate_up(output)};
    kernels::image_matmul_args second{down_to(out)};
    first.matmul.x = image.data();
    first.matmul.act = act.data();
    second.matmul.x = act.data();
    for (kernels::image_matmul_args* args : {&first, &second}) {
      args->matmul.columns = s.pairs;
      args->matmul.x_stride = args->matmul.act_stride = s.columns;
      s.sort(*args, most);
      BOOST_REQUIRE_EQUAL(kernels::launch_image_matmul(*args, nullptr), 0);
    }
    BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
  }

  bool k_format;
  std::uint32_t width, inner, most;
  experts_of gate, up, down;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(image_matmul)

BOOST_AUTO_TEST_CASE(an_image_holds_each_half_at_its_place) {
  constexpr std::uint32_t cols = 256;
  constexpr std::uint32_t columns = 139;
  const test_input x(cols, columns, 5);
  for (const auto order : {kernels::half_order::natural, kernels::half_order::packed}) {
    const dense_image image(x, columns, order);
    const auto got = image.halves.read();
    std::size_t wrong = 0;
    for (std::uint32_t m = 0; m < columns; ++m) {
      for (std::uint32_t i = 0; i < cols; ++i) {
        const __half here = got[kernels::place_in_image(image.columns, m, i)];
        wrong += std::memcmp(&here, &x.halves[std::size_t{m} * x.stride + i], 2) != 0 ? 1 : 0;
      }
    }
    BOOST_TEST(wrong == 0U);
  }
}

BOOST_AUTO_TEST_CASE(tiles_for_images_are_even_aligned_and_apart) {
  for (const std::uint32_t most : {96U, 128U}) {
    const sorted_pairs s(700, 6, most);
    const auto tiles = s.images.read();
    const auto chosen = s.chosen.read();
    const auto order = s.order.read();
    std::int32_t first = 0;
    std::int32_t end = 0;
    const std::int32_t count = s.image_count.read().front();
    BOOST_TEST(count <= static_cast<std::int32_t>(s.tiles_max));
    for (std::int32_t t = 0; t < count; ++t) {
      BOOST_REQUIRE_EQUAL(tiles[t].first, first);
      BOOST_REQUIRE_GE(tiles[t].at, end);
      BOOST_TEST(tiles[t].at % 8 == 0);
      BOOST_REQUIRE_GT(tiles[t].count, 0);
      BOOST_REQUIRE_LE(tiles[t].count, static_cast<std::int32_t>(most));
      for (std::int32_t i = first; i < first + tiles[t].count; ++i)
        BOOST_REQUIRE_EQUAL(chosen[order[i]], tiles[t].expert);
      const bool goes_on = t + 1 < count && tiles[t + 1].expert == tiles[t].expert;
      BOOST_TEST((!goes_on || (tiles[t].count % 8 == 0 && tiles[t + 1].count + 8 * 5 > tiles[t].count)));
      first += tiles[t].count;
      end = tiles[t].at + static_cast<std::int32_t>(image_columns(tiles[t].count));
    }
    BOOST_TEST(first == static_cast<std::int32_t>(s.pairs));
    BOOST_TEST(end <= static_cast<std::int32_t>(s.columns));
  }
}

BOOST_DATA_TEST_CASE(dense_products_have_the_bits_of_the_others, boost::unit_test::data::make(formats),
                     format) {
  const std::uint32_t most = kernels::image_tile_columns(format.packed);
  for (const std::uint32_t cols : widths_of(format)) {
    for (const std::uint32_t rows : {16U, 200U, 456U}) {
      const test_matrix w(format, rows, cols, rows + cols);
      constexpr std::uint32_t columns = 301;
      const test_input x(cols, columns, cols);
      const device_array<float> bias{std::span<const float>(random_bias(rows))};
      for (const std::uint32_t count : {1U, 60U, 90U, 128U, columns}) {
        const device_array<float> want(std::size_t{count} * rows);
        const device_array<float> got(std::size_t{count} * rows);
        kernels::tiled_matmul_args other{};
        other.matmul = arguments(w, x, 0, count, want);
        if (count != 60) other.matmul.bias[0] = bias.data();
        BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(other, nullptr), 0);
        kernels::image_matmul_args args{};
        args.matmul = other.matmul;
        args.matmul.out = got.data();
        const dense_image image(x, count, kernels::half_order::packed);
        image.give(args.matmul);
        if (most == 0) {
          BOOST_TEST(kernels::launch_image_matmul(args, nullptr) != 0);
          continue;
        }
        for (const std::uint32_t tile : {0U, 64U, 96U, 128U}) {
          if (tile > most) continue;
          args.tile_columns = tile;
          BOOST_REQUIRE_EQUAL(cudaMemset(got.data(), 0xFF, got.size() * sizeof(float)), cudaSuccess);
          BOOST_REQUIRE_EQUAL(kernels::launch_image_matmul(args, nullptr), 0);
          BOOST_TEST(same_bits(got.read(), want.read()),
                     format << " " << rows << "x" << cols << ", " << count << " columns by " << tile);
        }
      }
    }
  }
}

// As many items as fill the GPU, each of many chunks: copies take longer there, and none may be overtaken.
BOOST_DATA_TEST_CASE(large_products_have_the_same_bits_every_time, boost::unit_test::data::make(formats),
                     format) {
  const std::uint32_t most = kernels::image_tile_columns(format.packed);
  if (most == 0) return;
  constexpr std::uint32_t rows = 3'072, cols = 2'304, columns = 1'500;
  const test_matrix w(format, rows, cols, 7);
  const test_input x(cols, columns, 8);
  const device_array<float> want(std::size_t{columns} * rows), got(std::size_t{columns} * rows);
  kernels::tiled_matmul_args other{};
  other.matmul = arguments(w, x, 0, columns, want);
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(other, nullptr), 0);
  const std::vector<float> expected = want.read();
  kernels::image_matmul_args args{};
  args.matmul = other.matmul;
  args.matmul.out = got.data();
  const dense_image image(x, columns, kernels::half_order::packed);
  image.give(args.matmul);
  for (const std::uint32_t tile : {64U, 96U, 128U}) {
    if (tile > most) continue;
    args.tile_columns = tile;
    for (int run = 0; run < 5; ++run) {
      BOOST_REQUIRE_EQUAL(kernels::launch_image_matmul(args, nullptr), 0);
      BOOST_TEST(same_bits(got.read(), expected), format << ", columns by " << tile << ", run " << run);
    }
  }
}

BOOST_AUTO_TEST_CASE(stacks_of_several_formats_add_to_what_is_there) {
  const test_matrix q(formats[8], 216, 1280, 41);
  const test_matrix k(formats[8], 72, 1280, 42);
  const test_matrix v(formats[7], 72, 1280, 43);
  constexpr std::uint32_t columns = 150;
  const test_input x(1280, columns, 44);
  const device_array<float> want{std::span<const float>(random_bias(columns * 360))};
  const device_array<float> got{std::span<const float>(random_bias(columns * 360))};
  kernels::tiled_matmul_args other{};
  kernels::packed_matmul_args& a = other.matmul;
  a = arguments(q, x, 0, columns, want);
  a.out_stride = 360;
  a.w[1] = k.view;
  a.w[2] = v.view;
  a.matrices = 3;
  a.output = kernels::matmul_output::add;
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(other, nullptr), 0);
  kernels::image_matmul_args args{};
  args.matmul = a;
  args.matmul.out = got.data();
  const dense_image image(x, columns, kernels::half_order::natural);
  image.give(args.matmul);
  BOOST_REQUIRE_EQUAL(kernels::launch_image_matmul(args, nullptr), 0);
  BOOST_TEST(same_bits(got.read(), want.read()));
}

/// Gate and up of experts, and what down makes of them: the one's image is the other's input.
BOOST_DATA_TEST_CASE(experts_have_the_bits_of_the_others, boost::unit_test::data::make(formats), format) {
  if (kernels::image_tile_columns(format.packed) == 0) return;
  const feed_forward layer(format);
  for (const std::uint32_t tokens : {5U, 90U, 700U}) {
    const sorted_pairs s(tokens, feed_forward::experts, kernels::image_tile_columns(format.packed));
    const test_input x(layer.width, tokens, 9);
    for (const auto output : {kernels::matmul_output::swiglu, kernels::matmul_output::swiglu_clamped,
                              kernels::matmul_output::geglu}) {
      const device_array<float> want(std::size_t{s.pairs} * layer.width);
      const device_array<float> got(std::size_t{s.pairs} * layer.width);
      layer.run_rows(s, x, output, want);
      layer.run_images(s, x, output, got);
      BOOST_TEST(same_bits(got.read(), want.read()), format << ": " << tokens << " tokens");
    }
  }
}

BOOST_AUTO_TEST_CASE(arguments_that_make_no_sense_are_refused_before_a_launch) {
  const test_matrix w(formats[8], 64, 64, 1);
  const test_input x(64, 9, 1);
  const device_array<float> out(9 * 64);
  const dense_image image(x, 9, kernels::half_order::natural);
  const auto refused = [&](auto change) {
    kernels::image_matmul_args args{};
    args.matmul = arguments(w, x, 0, 9, out);
    image.give(args.matmul);
    change(args);
    return kernels::launch_image_matmul(args, nullptr) != 0;
  };
  BOOST_TEST(!refused([](auto&) {}));
  BOOST_TEST(refused([](auto& args) { args.matmul.columns = 0; }));
  BOOST_TEST(refused([](auto& args) { args.matmul.columns = 17; }));  // the image has 16
  BOOST_TEST(refused([](auto& args) { args.matmul.x_stride = 12; }));
  BOOST_TEST(refused([](auto& args) { args.matmul.out = nullptr; }));
  BOOST_TEST(refused([](auto& args) { args.tile_columns = 136; }));
  BOOST_TEST(refused([](auto& args) { args.tile_columns = 100; }));
  BOOST_TEST(refused([](auto& args) { args.tiles = reinterpret_cast<const image_tile*>(args.matmul.out); }));
  kernels::to_image_args gather{x.device->data(), x.stride};
  gather.columns = 17;
  gather.image = image.halves.data();
  gather.image_columns = image.columns;
  BOOST_TEST(kernels::launch_to_image(gather, nullptr) != 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
