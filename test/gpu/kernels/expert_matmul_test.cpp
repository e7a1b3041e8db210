// Products of experts: grouped by expert in every kernel, or one by one, they give the bits of each expert's
// matrix alone.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "kernels/layer/experts.hpp"
#include "test/gpu/kernels/packed_matrices.hpp"

namespace orcd::test {
namespace {

/// A stack of experts and its bias, beside each expert as a matrix of its own. Where the format has row
/// scales, each expert has a factor.
struct expert_stack {
  static constexpr std::uint32_t rows = 40;

  expert_stack(const format_pair& format, std::uint32_t count)
      : experts(count),
        cols(engine::traits_of(format.file).block_elems == 64 ? 1088 : 1120),
        stride((kernels::packed_bytes(format.packed, rows, cols) + 255) / 256 * 256),
        scales(static_cast<std::uint32_t>(kernels::packed_row_scales(format.packed, rows))),
        data(stride * experts),
        row_scales(std::max(1U, scales * experts)),
        bias_values(experts * rows),
        alone(experts) {
    std::mt19937_64 random(3);
    for (float& b : bias_values) b = random_unit(random);
    bias.emplace(std::span<const float>(bias_values));
    for (std::uint32_t e = 0; e < experts; ++e) {
      alone[e].emplace(format, rows, cols, 100 + e, scales > 0 ? 0.25F * (e % 7 + 1) : 1.0F);
      copy(data.data() + e * stride, alone[e]->view.data, kernels::packed_bytes(format.packed, rows, cols));
      if (scales > 0) copy(row_scales.data() + e * scales, alone[e]->view.row_scale, scales * sizeof(float));
    }
  }
  static void copy(void* to, const void* from, std::size_t bytes) {
    BOOST_REQUIRE_EQUAL(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
  }
  [[nodiscard]] kernels::packed_matrix view() const {
    kernels::packed_matrix w = alone[0]->view;
    w.data = data.data();
    w.expert_stride = stride;
    w.row_scale = scales > 0 ? row_scales.data() : nullptr;
    w.row_scale_stride = scales;
    return w;
  }

  std::uint32_t experts;
  std::uint32_t cols;  ///< the last chunk is shorter
  std::uint64_t stride;
  std::uint32_t scales;
  device_array<std::byte> data;
  device_array<float> row_scales;
  std::vector<float> bias_values;
  std::optional<device_array<float>> bias;
  std::vector<std::optional<test_matrix>> alone;
};

/// The first pairs: few, more than a tile of each expert has, or tiles so narrow that a block has several.
void check_few(kernels::sort_experts_args sort, kernels::tiled_matmul_args all,
               const device_array<float>& grouped, const std::vector<float>& expected,
               const format_pair& format) {
  const std::uint32_t many = sort.pairs;
  for (const std::uint32_t few : {1U, 3U, 8U, std::min(60U, many), many}) {
    sort.pairs = all.matmul.columns = few;
    sort.tile_columns = all.tile_columns = few == many ? 1 : kernels::matvec_columns_max;
    BOOST_REQUIRE_EQUAL(kernels::launch_sort_experts(sort, nullptr), 0);
    BOOST_REQUIRE_EQUAL(cudaMemset(grouped.data(), 0xFF, grouped.size() * sizeof(float)), cudaSuccess);
    BOOST_REQUIRE_EQUAL(kernels::launch_balanced_matvec(all, nullptr), 0);
    const std::size_t bytes = std::size_t{few} * expert_stack::rows * sizeof(float);
    BOOST_TEST((std::memcmp(grouped.read().data(), expected.data(), bytes) == 0),
               format << ": " << few << " pairs differ");
  }
}

/// Every instance of the throughput kernel, for tokens in both orders.
void check_instances(kernels::sort_experts_args sort, kernels::tiled_matmul_args all, const test_input& x,
                     const device_array<float>& grouped, const std::vector<float>& expected,
                     const format_pair& format) {
  for (const instance& i : instances) {
    const std::uint32_t own =
        i.order == kernels::half_order::packed ? 32 : kernels::expert_tile_columns(sort.pairs, sort.experts);
    sort.tile_columns = all.tile_columns = i.tile_columns != 0 ? i.tile_columns : own;
    BOOST_REQUIRE_EQUAL(kernels::launch_sort_experts(sort, nullptr), 0);
    all.row_blocks = i.row_blocks;
    all.matmul.x = x.device->data();
    take_input(all.matmul, x, i.order);
    BOOST_REQUIRE_EQUAL(cudaMemset(grouped.data(), 0xFF, grouped.size() * sizeof(float)), cudaSuccess);
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
    BOOST_TEST((std::memcmp(grouped.read().data(), expected.data(), expected.size() * sizeof(float)) == 0),
               format << ": grouped differs with " << i);
  }
}

/// Every pair has the bits that its expert alone gives its token, bias, row scales and the expert's factor
/// included, in both kernels and in any order of the pairs; and is near the result in f64.
void compare_with_single_matrices(const format_pair& format, std::uint32_t experts, std::uint32_t tokens,
                                  const std::function<std::uint32_t(std::uint32_t)>& expert_of) {
  constexpr std::uint32_t rows = expert_stack::rows;
  constexpr std::uint32_t used = 2;
  const std::uint32_t pairs = tokens * used;
  const expert_stack stack(format, experts);
  const test_input x(stack.cols, tokens, 9);
  std::vector<std::int32_t> chosen(pairs);
  for (std::uint32_t i = 0; i < pairs; ++i) chosen[i] = static_cast<std::int32_t>(expert_of(i));
  const device_array<std::int32_t> device_chosen{std::span<const std::int32_t>(chosen)};

  kernels::tiled_matmul_args all{};
  kernels::packed_matmul_args& a = all.matmul;
  a.w[0] = stack.view();
  a.bias[0] = stack.bias->data();
  a.columns = pairs;
  a.x = x.device->data();
  a.x_stride = x.stride;
  a.x_divisor = used;
  a.experts = device_chosen.data();
  a.out_stride = rows;
  const device_array<float> grouped(pairs * rows);
  const device_array<std::int32_t> order(pairs);
  const device_array<kernels::expert_tile> tiles(pairs);  // as many as tiles of one column
  const device_array<std::int32_t> count(1);
  kernels::sort_experts_args sort{device_chosen.data(), pairs,        experts,
                                  order.data(),         tiles.data(), count.data()};
  const device_array<float> one_by_one(pairs * rows);
  a.out = one_by_one.data();
  all.order = order.data();
  all.tiles = tiles.data();
  all.tile_count = count.data();
  all.tiles_max = pairs;
  sort.tile_columns = all.tile_columns = 1;
  BOOST_REQUIRE_EQUAL(kernels::launch_sort_experts(sort, nullptr), 0);
  BOOST_REQUIRE_EQUAL(kernels::launch_balanced_matvec(all, nullptr), 0);
  const auto got = one_by_one.read();
  a.out = grouped.data();
  check_instances(sort, all, x, grouped, got, format);
  check_few(sort, all, grouped, got, format);

  for (std::uint32_t i = 0; i < pairs; ++i) {
    const auto e = static_cast<std::uint32_t>(chosen[i]);
    const device_array<float> single(rows);
    auto s = arguments(*stack.alone[e], x, i / used, 1, single);
    s.out = single.data();
    s.bias[0] = stack.bias->data() + e * rows;
    BOOST_REQUIRE_EQUAL(launch_few(s), 0);
    BOOST_TEST((std::memcmp(single.read().data(), got.data() + i * rows, rows * sizeof(float)) == 0),
               format << ": pair " << i << " of expert " << e << " differs");
    const auto row = x.values.begin() + std::ptrdiff_t{i / used} * stack.cols;
    auto exact = stack.alone[e]->multiply({row, row + stack.cols}, 1);
    for (std::uint32_t r = 0; r < rows; ++r) exact[r] += stack.bias_values[e * rows + r];
    BOOST_TEST(relative_error(single.read(), exact) < tolerance,
               format << ": pair " << i << " of expert " << e);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expert_matmul)

BOOST_DATA_TEST_CASE(experts_equal_single_matrices, boost::unit_test::data::make(formats), format) {
  if (engine::traits_of(format.file).block_elems > 64) return;
  compare_with_single_matrices(format, 5, 90, [](std::uint32_t i) { return (i * 7 + i / 3) % 5; });
}

/// As many experts as gpt-oss-120b has: most of them without a pair, with one, or one with most of all.
BOOST_AUTO_TEST_CASE(of_128_experts_each_equals_its_matrix_alone) {
  const auto mxfp4 = std::find_if(formats.begin(), formats.end(),
                                  [](const format_pair& f) { return f.packed == packed_format::mxfp4; });
  compare_with_single_matrices(*mxfp4, 128, 4, [](std::uint32_t i) { return (i * 37 + 5) % 128; });
  compare_with_single_matrices(*mxfp4, 128, 90, [](std::uint32_t i) { return (i * 37 + i / 3) % 128; });
  compare_with_single_matrices(*mxfp4, 128, 300,
                               [](std::uint32_t i) { return i % 8 == 0 ? i * 5 % 128 : 127; });
}

/// One matrix as every expert of many: so many chunks of a warp that its lanes cannot know all at once, of
/// one column each; or tiles whose sums have no room at once, of experts with different numbers of columns.
BOOST_DATA_TEST_CASE(many_experts_of_a_block_agree,
                     boost::unit_test::data::make(formats) * boost::unit_test::data::make({1U, 8U}), format,
                     most) {
  constexpr std::uint32_t rows = 1024;
  constexpr std::uint32_t cols = 2048;
  constexpr std::uint32_t columns = 300;
  const test_matrix w(format, rows, cols, 61);
  const test_input x(cols, columns, 62);
  std::vector<std::int32_t> order(columns);
  std::iota(order.rbegin(), order.rend(), 0);
  std::vector<kernels::expert_tile> tiles;
  for (std::uint32_t first = 0; first < columns;) {
    const auto expert = static_cast<std::uint32_t>(tiles.size());
    const std::uint32_t count = std::min(1 + expert % most, columns - first);
    tiles.push_back({static_cast<std::int32_t>(expert), static_cast<std::int32_t>(first),
                     static_cast<std::int32_t>(count)});
    first += count;
  }
  const auto count = static_cast<std::int32_t>(tiles.size());
  const device_array<std::int32_t> device_order{std::span<const std::int32_t>(order)};
  const device_array<kernels::expert_tile> device_tiles{std::span<const kernels::expert_tile>(tiles)};
  const device_array<std::int32_t> device_count{std::span<const std::int32_t>(&count, 1)};
  const auto run = [&](bool balanced) {
    const device_array<float> out(std::size_t{columns} * rows);
    kernels::tiled_matmul_args all{};
    all.matmul = arguments(w, x, 0, columns, out);
    if (balanced) {
      all.order = device_order.data();
      all.tiles = device_tiles.data();
      all.tile_count = device_count.data();
      all.tile_columns = most;
    }
    BOOST_REQUIRE_EQUAL(balanced ? launch_balanced_matvec(all, nullptr) : launch_packed_matmul(all, nullptr),
                        0);
    return out.read();
  };
  const auto want = run(false);
  BOOST_TEST((std::memcmp(run(true).data(), want.data(), want.size() * sizeof(float)) == 0), format);
}

BOOST_AUTO_TEST_CASE(experts_with_rows_too_long_for_a_block_are_left_to_the_other_kernels) {
  kernels::tiled_matmul_args all{};
  kernels::packed_matmul_args& a = all.matmul;
  a.w[0].rows = 2880;
  a.w[0].cols = 2880;
  a.w[0].format = kernels::packed_format::mxfp4;
  BOOST_TEST(kernels::balanced_matvec_takes(a, kernels::matvec_columns_max));
  a.w[0].cols = 14'336;
  BOOST_TEST(!kernels::balanced_matvec_takes(a, kernels::matvec_columns_max));
  BOOST_TEST(kernels::launch_balanced_matvec(all, nullptr) == static_cast<int>(cudaErrorInvalidValue));
  BOOST_TEST(kernels::balanced_matvec_takes(a, 4));  // fewer columns have room
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
