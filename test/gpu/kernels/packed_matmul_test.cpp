// Packed weights against f64: every format, shapes with odd remainders, both kernels; and the contract
// that the number of columns, their neighbours and the kernel never change a bit.
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/device/device_room.hpp"
#include "kernels/layer/embed_norm.hpp"
#include "test/gpu/kernels/packed_matrices.hpp"

namespace orcd::test {

namespace {

/// Columns of a launch of the few-column product.
const std::vector<std::uint32_t> few_columns{1, 2, 3, 5, 7, 8};

template <class T>
void append_bytes(std::vector<std::byte>& to, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(packed_matmul)

BOOST_DATA_TEST_CASE(both_kernels_agree_with_f64_and_with_each_other,
                     boost::unit_test::data::make(formats) * boost::unit_test::data::make(shapes), format,
                     size) {
  const test_matrix w(format, size.rows, size.cols, 7);
  const std::uint32_t columns = 137;
  const test_input x(size.cols, columns, 11);
  const auto want = w.multiply(x.values, columns);

  std::vector<float> got;
  for (const instance& i : instances) {
    device_array<float> tiled(std::size_t{columns} * size.rows);
    kernels::tiled_matmul_args all{};
    all.matmul = arguments(w, x, 0, columns, tiled);
    take_input(all.matmul, x, i.order);
    all.tile_columns = i.tile_columns;
    all.row_blocks = i.row_blocks;
    all.split = i.tile_columns != 0 ? 1 : 0;
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
    const auto bits = tiled.read();
    if (got.empty()) {
      got = bits;
      const double error = relative_error(got, want);
      BOOST_TEST(error < tolerance, format << " " << size << ": relative error " << error);
    }
    BOOST_TEST((std::memcmp(bits.data(), got.data(), got.size() * sizeof(float)) == 0),
               format << " " << size << ": " << i << ": other bits");
  }

  for (const std::uint32_t step : few_columns) {
    device_array<float> narrow(std::size_t{columns} * size.rows);
    for (std::uint32_t first = 0; first < columns; first += step) {
      const auto a = arguments(w, x, first, std::min(step, columns - first), narrow);
      BOOST_REQUIRE_EQUAL(launch_few(a), 0);
    }
    const auto bits = narrow.read();
    BOOST_TEST((std::memcmp(bits.data(), got.data(), got.size() * sizeof(float)) == 0),
               format << " " << size << ": " << step << " columns a launch give other bits");
  }
}

/// The shapes of the others, and so much k that few rows need several rounds, of which the last has fewer
/// chunks than there are blocks.
std::vector<shape> cluster_shapes() {
  std::vector<shape> all = shapes;
  all.push_back({40, 11'040});
  return all;
}

/// Blocks that share the k of their rows fold as one block does, whatever their number and the shape.
BOOST_DATA_TEST_CASE(clusters_that_share_k_agree,
                     boost::unit_test::data::make(formats) * boost::unit_test::data::make(cluster_shapes()),
                     format, size) {
  const std::uint32_t whole = engine::traits_of(format.file).block_elems;
  const std::uint32_t cols = size.cols / whole * whole;  // else the last chunk is one of one group
  const test_matrix w(format, size.rows, cols, 17);
  const test_matrix second(format, size.rows, cols, 18);
  constexpr std::uint32_t columns = 27;
  const test_input x(cols, columns, 19);
  const std::uint32_t stride = 2 * size.rows;
  const std::vector<float> before(std::size_t{columns} * stride, 0.5F);
  std::uint32_t taken = 0;
  for (const auto output : {kernels::matmul_output::store, kernels::matmul_output::add,
                            kernels::matmul_output::swiglu_clamped, kernels::matmul_output::geglu}) {
    std::vector<std::byte> want;
    const auto check = [&](std::uint32_t tile_columns, std::uint32_t row_blocks, std::uint32_t split) {
      const device_array<float> out{std::span<const float>(before)};
      const device_array<__half> act(std::size_t{columns} * stride);
      kernels::tiled_matmul_args all{};
      all.matmul = arguments(w, x, 0, columns, out);
      all.matmul.w[1] = second.view;
      all.matmul.matrices = 2;
      all.matmul.output = output;
      all.matmul.out_stride = stride;
      all.matmul.act = act.data();
      all.matmul.act_stride = stride;
      all.tile_columns = tile_columns;
      all.row_blocks = row_blocks;
      all.split = split;
      if (!kernels::packed_matmul_takes(all)) return;
      ++taken;
      BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
      std::vector<std::byte> got;
      append_bytes(got, out.read());
      append_bytes(got, act.read());
      if (want.empty()) want = got;
      BOOST_TEST((got == want), format << " " << size << ": " << tile_columns << " columns, " << row_blocks
                                       << " sets of rows, " << split << " blocks differ");
    };
    check(16, 1, 1);
    for (const std::uint32_t tile_columns : {16U, 32U}) {
      for (const std::uint32_t row_blocks : {1U, 2U, 4U}) {
        for (std::uint32_t split = 2; split <= 8; ++split) check(tile_columns, row_blocks, split);
      }
    }
  }
  // How many fit depends on the device, but some always do.
  BOOST_TEST(taken >= (w.view.chunks() > 1 ? 12 : 3));
}

/// Gate and up, and stacks of three matrices added to what is there: all products and every instance write
/// the same bits, and nothing else. In packed order the rows of a pair fill groups of 64.
BOOST_DATA_TEST_CASE(pairs_and_stacks_agree,
                     boost::unit_test::data::make(formats) * boost::unit_test::data::make({184U, 192U}),
                     format, rows) {
  const std::uint32_t cols = engine::traits_of(format.file).block_elems > 32 ? 1280 : 928;
  constexpr std::uint32_t columns = 77;
  constexpr std::uint32_t out_stride = 528;
  constexpr std::uint32_t act_stride = 256;
  // Blocks share activations: four of a pair's twelve tiles, two of a stack's thirty.
  const test_matrix gate(format, rows, cols, 21);
  const test_matrix up(format, rows, cols, 22);
  const test_matrix small(format, 88, cols, 23);
  const test_input x(cols, columns, 24);
  const std::vector<float> before(std::size_t{columns} * out_stride, 0.25F);
  const std::vector<__half> poison(std::size_t{columns} * act_stride, __float2half_rn(-7.0F));
  // Between rows of a pair's product nothing is written, and what is there has its places in the same order.
  const auto run = [&](bool paired, kernels::half_order order, auto launch) {
    const device_array<float> out{std::span<const float>(before)};
    const device_array<__half> act{std::span<const __half>(poison)};
    kernels::packed_matmul_args a = arguments(gate, x, 0, columns, out);
    a.w[1] = up.view;
    a.w[2] = small.view;
    a.matrices = paired ? 2 : 3;
    a.output = paired ? kernels::matmul_output::swiglu : kernels::matmul_output::add;
    a.out_stride = out_stride;
    a.act = act.data();
    a.act_stride = act_stride;
    take_input(a, x, order);
    launch(a);
    std::vector<std::byte> bytes;
    append_bytes(bytes, out.read());
    const auto written = act.read();
    std::vector<__half> natural(written.size());
    for (std::uint32_t m = 0; m < columns; ++m) {
      for (std::uint32_t i = 0; i < act_stride; ++i)
        natural[m * act_stride + i] = written[m * act_stride + kernels::place_of_half(order, i)];
    }
    append_bytes(bytes, natural);
    return bytes;
  };
  for (const bool paired : {false, true}) {
    const auto by_few = [&](std::uint32_t step) {
      return run(paired, kernels::half_order::natural, [&](const kernels::packed_matmul_args& a) {
        for (std::uint32_t first = 0; first < columns; first += step) {
          kernels::packed_matmul_args part = a;
          part.columns = std::min(step, columns - first);
          part.x += std::size_t{first} * a.x_stride;
          part.out += std::size_t{first} * a.out_stride;
          part.act += std::size_t{first} * a.act_stride;
          BOOST_REQUIRE_EQUAL(launch_few(part), 0);
        }
      });
    };
    const auto want = by_few(1);
    BOOST_TEST((by_few(8) == want), format << (paired ? " pair" : " stack") << ": eight columns differ");
    for (const instance& i : instances) {
      if (paired && i.order == kernels::half_order::packed && rows % 64 != 0) continue;
      const auto got = run(paired, i.order, [&](const kernels::packed_matmul_args& a) {
        kernels::tiled_matmul_args all{};
        all.matmul = a;
        all.tile_columns = i.tile_columns;
        all.row_blocks = i.row_blocks;
        all.split = i.tile_columns != 0 ? 1 : 0;
        BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
      });
      BOOST_TEST((got == want), format << (paired ? " pair" : " stack") << ": " << i << " differ");
    }
  }
}

/// What experts with GELU in the gate make of a gate and an up value: f64 from the products' own sums.
BOOST_AUTO_TEST_CASE(geglu_is_that_of_f64) {
  constexpr std::uint32_t rows = 64, cols = 256, columns = 24;
  const test_matrix gate(formats.at(5), rows, cols, 41), up(formats.at(5), rows, cols, 42);
  const test_input x(cols, columns, 43);
  const device_array<float> sums(std::size_t{columns} * 2 * rows);
  const device_array<__half> act(std::size_t{columns} * rows);
  kernels::packed_matmul_args a = arguments(gate, x, 0, columns, sums);
  a.w[1] = up.view;
  a.matrices = 2;
  a.out_stride = 2 * rows;
  kernels::tiled_matmul_args all{};
  all.matmul = a;
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
  all.matmul.output = kernels::matmul_output::geglu;
  all.matmul.act = act.data();
  all.matmul.act_stride = rows;
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
  const auto values = sums.read();
  const auto got = act.read();
  for (std::size_t m = 0; m < columns; ++m) {
    for (std::size_t r = 0; r < rows; ++r) {
      const double g = values[m * 2 * rows + r];
      const double gelu = 0.5 * g * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (g + 0.044715 * g * g * g)));
      const double want = std::clamp(gelu * values[m * 2 * rows + rows + r], -65'504.0, 65'504.0);
      BOOST_TEST_REQUIRE(std::fabs(__half2float(got[m * rows + r]) - want) <=
                         0x1p-11 * std::fabs(want) + 1e-5);
    }
  }
}

/// Gate and up with biases, in so many items that each instance's blocks have several one after the other.
BOOST_DATA_TEST_CASE(pairs_of_more_items_than_blocks_agree,
                     boost::unit_test::data::make(std::vector<format_pair>{formats.at(5), formats.at(8)}),
                     format) {
  constexpr std::uint32_t rows = 1'152;
  constexpr std::uint32_t cols = 512;
  constexpr std::uint32_t columns = 2'100;
  const test_matrix gate(format, rows, cols, 31);
  const test_matrix up(format, rows, cols, 32);
  const test_input x(cols, columns, 33);
  std::vector<float> biases(2 * rows);
  for (std::size_t i = 0; i < biases.size(); ++i) biases[i] = 0.01F * static_cast<float>(i % 37) - 0.2F;
  const device_array<float> bias{std::span<const float>(biases)};
  const device_array<float> none(1);
  device_array<__half> act(std::size_t{columns} * rows);
  kernels::packed_matmul_args a = arguments(gate, x, 0, columns, none);
  a.w[1] = up.view;
  a.matrices = 2;
  a.bias[0] = bias.data();
  a.bias[1] = bias.data() + rows;
  a.output = kernels::matmul_output::swiglu;
  a.out = nullptr;
  a.act = act.data();
  a.act_stride = rows;
  for (std::uint32_t first = 0; first < columns; first += 8) {
    kernels::packed_matmul_args part = a;
    part.columns = std::min(8U, columns - first);
    part.x += std::size_t{first} * a.x_stride;
    part.act += std::size_t{first} * a.act_stride;
    BOOST_REQUIRE_EQUAL(launch_few(part), 0);
  }
  const auto want = act.read();
  for (const instance& i : instances) {
    kernels::tiled_matmul_args all{};
    all.matmul = a;
    take_input(all.matmul, x, i.order);
    all.tile_columns = i.tile_columns;
    all.row_blocks = i.row_blocks;
    all.split = i.tile_columns != 0 ? 1 : 0;
    act.fill(0xFF);
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
    const auto written = act.read();
    std::size_t wrong = 0;
    for (std::size_t at = 0; at < want.size(); ++at) {
      const auto place = kernels::place_of_half(i.order, static_cast<std::uint32_t>(at));
      wrong += std::memcmp(&written[place], &want[at], sizeof(__half)) != 0 ? 1U : 0U;
    }
    BOOST_TEST(wrong == 0U, format << ": " << i << ": " << wrong << " halves differ");
  }
}

/// `columns` columns of one launch description by a few-column product, `step` a launch, and by the
/// throughput kernel, with its input in both orders: the same bits.
void check_both_kernels(kernels::packed_matmul_args a, const test_input& x, std::uint32_t columns,
                        std::uint32_t width, const std::string& what) {
  device_array<float> out(std::size_t{columns} * width);
  a.out = out.data();
  a.out_stride = width;
  a.columns = columns;
  kernels::tiled_matmul_args all{};
  all.matmul = a;
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
  const auto want = out.read();
  out.fill(0xFF);
  take_input(all.matmul, x, kernels::half_order::packed);
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
  BOOST_TEST((std::memcmp(out.read().data(), want.data(), want.size() * sizeof(float)) == 0),
             what << ": packed order differs");
  for (const std::uint32_t step : few_columns) {
    out.fill(0xFF);
    for (std::uint32_t first = 0; first < columns; first += step) {
      kernels::packed_matmul_args part = a;
      part.columns = std::min(step, columns - first);
      part.x += std::size_t{first} * a.x_stride;
      part.out += std::size_t{first} * a.out_stride;
      BOOST_REQUIRE_EQUAL(launch_few(part), 0);
    }
    const auto got = out.read();
    BOOST_TEST((std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0),
               what << ": " << step << " columns a launch differ");
  }
}

/// So many rows that a warp has tiles of its own, or a block several items, the last chunk of k a short one
/// where a format has that; so many columns that not all fit in shared memory; blocks of three tiles that
/// have room for the sums of one, eight of which share activations.
BOOST_DATA_TEST_CASE(heads_and_wide_matrices_agree, boost::unit_test::data::make(formats), format) {
  std::vector<shape> sizes{{60'000, 512}, {48, 28'672}, {4'400, 8192}};
  if (engine::traits_of(format.file).block_elems <= 64) sizes.push_back({34'000, 576});
  for (const shape size : sizes) {
    const test_matrix w(format, size.rows, size.cols, 31);
    const test_input x(size.cols, 9, 32);
    const device_array<float> none(1);
    check_both_kernels(arguments(w, x, 0, 9, none), x, 9, size.rows,
                       std::string(engine::traits_of(format.file).name));
  }
}

BOOST_AUTO_TEST_CASE(more_row_tiles_than_can_be_balanced_are_left_to_the_other_kernels) {
  const test_matrix w(formats[0], 16, 256, 61);
  const test_input x(256, 1, 62);
  const device_array<float> none(1);
  kernels::packed_matmul_args a = arguments(w, x, 0, 1, none);
  a.w[0].rows = 65'535 * kernels::tile_rows;
  BOOST_TEST(kernels::balanced_matvec_best(a, kernels::matvec_columns_max));
  ++a.w[0].rows;
  BOOST_TEST(!kernels::balanced_matvec_best(a, kernels::matvec_columns_max));
}

BOOST_AUTO_TEST_CASE(stacks_of_several_formats_agree) {
  const test_matrix q(formats[5], 216, 1280, 41);
  const test_matrix k(formats[4], 72, 1280, 42);
  const test_matrix v(formats[7], 72, 1280, 43);
  const test_input x(1280, 9, 44);
  const device_array<float> none(1);
  kernels::packed_matmul_args a = arguments(q, x, 0, 9, none);
  a.w[1] = k.view;
  a.w[2] = v.view;
  a.matrices = 3;
  check_both_kernels(a, x, 9, 360, "q4_k, q8_0, q6_k");
}

BOOST_DATA_TEST_CASE(memory_left_to_the_next_kernel_changes_no_bit, boost::unit_test::data::make(shapes),
                     size) {
  constexpr std::uint32_t columns = kernels::matvec_columns_max;
  const test_matrix w(formats[0], size.rows, size.cols, 17);
  const test_input x(size.cols, columns, 19);
  const device_array<float> out(std::size_t{columns} * size.rows);
  kernels::tiled_matmul_args all{};
  all.matmul = arguments(w, x, 0, columns, out);
  std::vector<float> want;
  for (const std::uint32_t left : {0U, 24U * 1024, 150U * 1024, kernels::multiprocessor_shared_bytes}) {
    BOOST_REQUIRE_EQUAL(kernels::launch_balanced_matvec(all, nullptr, left), 0);
    const auto got = out.read();
    if (want.empty()) want = got;
    BOOST_TEST(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0, size << ": " << left);
  }
  BOOST_TEST(kernels::launch_balanced_matvec(all, nullptr, kernels::multiprocessor_shared_bytes + 1) != 0);
}

BOOST_DATA_TEST_CASE(block_formats_take_columns_that_are_no_multiple_of_64,
                     boost::unit_test::data::make(formats), format) {
  if (engine::traits_of(format.file).block_elems > 32) return;
  const test_matrix w(format, 33, 96, 3);
  const test_input x(96, 5, 5);
  device_array<float> out(5 * 33);
  BOOST_REQUIRE_EQUAL(launch_few(arguments(w, x, 0, 5, out)), 0);
  BOOST_TEST(relative_error(out.read(), w.multiply(x.values, 5)) < tolerance);
}

BOOST_AUTO_TEST_CASE(arguments_that_make_no_sense_are_refused_before_a_launch) {
  const test_matrix w(formats[0], 16, 64, 1);
  const test_input x(64, 9, 1);
  device_array<float> out(9 * 16);
  auto a = arguments(w, x, 0, 9, out);
  BOOST_TEST(launch_few(a) != 0);  // nine columns
  a.columns = 0;
  BOOST_TEST(launch_few(a) != 0);
  a.columns = 1;
  a.x = nullptr;
  BOOST_TEST(launch_few(a) != 0);
  a = arguments(w, x, 0, 1, out);
  BOOST_TEST(launch_few(a) == 0);
  a.x_order = kernels::half_order::packed;  // the throughput product's alone
  BOOST_TEST(launch_few(a) != 0);

  const auto refused = [&](auto change) {
    kernels::tiled_matmul_args all{};
    all.matmul = arguments(w, x, 0, 9, out);
    change(all);
    return kernels::launch_packed_matmul(all, nullptr) != 0;
  };
  const device_array<kernels::expert_tile> tiles(1);
  const device_array<std::int32_t> count(1);
  const device_array<__half> act(9 * 64);
  BOOST_TEST(refused([](auto& all) { all.matmul.columns = 0; }));
  BOOST_TEST(refused([](auto& all) { all.tile_columns = 24; }));
  BOOST_TEST(refused([](auto& all) { all.row_blocks = 3; }));
  BOOST_TEST(refused([](auto& all) {  // copied by whole groups of 64
    all.matmul.x_order = kernels::half_order::packed;
    all.matmul.x_stride = 72;
  }));
  BOOST_TEST(refused([&](auto& all) {  // rows that do not fill a group of 64
    all.matmul.x_order = kernels::half_order::packed;
    all.matmul.w[1] = all.matmul.w[0];
    all.matmul.matrices = 2;
    all.matmul.output = kernels::matmul_output::swiglu;
    all.matmul.act = act.data();
    all.matmul.act_stride = 64;
  }));
  BOOST_TEST(refused([](auto& all) {  // no instance
    all.matmul.x_order = kernels::half_order::packed;
    all.tile_columns = 16;
  }));
  BOOST_TEST(refused([&](auto& all) { all.tiles = tiles.data(); }));
  BOOST_TEST(refused([&](auto& all) {  // no width of the tiles
    all.tiles = tiles.data();
    all.tile_count = count.data();
    all.tiles_max = 1;
  }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
