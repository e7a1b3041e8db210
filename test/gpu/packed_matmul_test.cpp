// Packed weights against f64: every format, shapes with odd remainders, both kernels; and the contract
// that the number of columns, their neighbours and the kernel never change a bit.
#include "kernels/packed_matmul.hpp"

#include <cuda_fp16.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "engine/gguf/ggml_type.hpp"
#include "kernels/embed_norm.hpp"
#include "kernels/experts.hpp"
#include "kernels/matmul.hpp"
#include "kernels/repack.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;
using kernels::packed_format;

struct format_pair {
  ggml_type file;
  packed_format packed;
  float spread;
};
std::ostream& operator<<(std::ostream& out, const format_pair& f) {
  return out << engine::traits_of(f.file).name;
}
const std::vector<format_pair> formats{
    {ggml_type::q4_0, packed_format::q4_0, 0.05F},   {ggml_type::q4_1, packed_format::q4_1, 0.05F},
    {ggml_type::q5_0, packed_format::q5_0, 0.05F},   {ggml_type::q5_1, packed_format::q5_1, 0.05F},
    {ggml_type::q8_0, packed_format::q8_0, 0.05F},   {ggml_type::q4_k, packed_format::q4_k, 0.05F},
    {ggml_type::q5_k, packed_format::q5_k, 0.05F},   {ggml_type::q6_k, packed_format::q6_k, 0.05F},
    {ggml_type::mxfp4, packed_format::mxfp4, 0.05F}, {ggml_type::f16, packed_format::f16, 0.05F},
    {ggml_type::bf16, packed_format::bf16, 0.05F},   {ggml_type::f32, packed_format::f32, 0.05F},
};

/// A random matrix on both sides.
class test_matrix {
 public:
  test_matrix(const format_pair& format, std::uint32_t rows, std::uint32_t cols, std::uint64_t seed)
      : rows_(rows), cols_(cols), values_(static_cast<std::size_t>(rows) * cols) {
    std::mt19937_64 random(seed);
    const auto raw =
        random_payload(format.file, static_cast<std::uint64_t>(rows) * cols, format.spread, random);
    const std::uint64_t row_bytes = engine::row_bytes(engine::traits_of(format.file), cols);
    for (std::uint32_t r = 0; r < rows; ++r) {
      kernels::host::dequantize_row(format.file, raw.data() + r * row_bytes, cols,
                                    values_.data() + std::size_t{r} * cols);
    }
    const device_array<std::byte> staged(std::span<const std::byte>(raw.data(), raw.size()));
    packed_.emplace(kernels::packed_bytes(format.packed, rows, cols));
    const std::uint64_t scales = kernels::packed_row_scales(format.packed, rows);
    if (scales > 0) row_scale_.emplace(scales);
    const kernels::repack_args args{staged.data(),
                                    row_bytes,
                                    rows,
                                    cols,
                                    format.packed,
                                    packed_->data(),
                                    row_scale_ ? row_scale_->data() : nullptr};
    BOOST_REQUIRE_EQUAL(kernels::launch_repack(args, nullptr), 0);
    BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
    view.data = packed_->data();
    view.row_scale = row_scale_ ? row_scale_->data() : nullptr;
    view.rows = rows;
    view.cols = cols;
    view.format = format.packed;
  }

  /// y[m][r] in f64 over f16 activations.
  [[nodiscard]] std::vector<double> multiply(const std::vector<float>& x, std::uint32_t columns) const {
    std::vector<double> y(std::size_t{columns} * rows_);
    for (std::uint32_t m = 0; m < columns; ++m) {
      for (std::uint32_t r = 0; r < rows_; ++r) {
        double sum = 0;
        for (std::uint32_t c = 0; c < cols_; ++c) {
          sum += double{values_[std::size_t{r} * cols_ + c]} * double{x[std::size_t{m} * cols_ + c]};
        }
        y[std::size_t{m} * rows_ + r] = sum;
      }
    }
    return y;
  }

  kernels::packed_matrix view;

 private:
  std::uint32_t rows_, cols_;
  std::vector<float> values_;
  std::optional<device_array<std::byte>> packed_;
  std::optional<device_array<float>> row_scale_;
};

/// Random activations that f16 holds exactly, on both sides; padded with zeros to a multiple of 64.
struct test_input {
  test_input(std::uint32_t cols, std::uint32_t columns, std::uint64_t seed)
      : stride((cols + 63) / 64 * 64),
        values(std::size_t{cols} * columns),
        halfs(std::size_t{stride} * columns) {
    std::mt19937_64 random(seed);
    for (std::uint32_t m = 0; m < columns; ++m) {
      for (std::uint32_t c = 0; c < cols; ++c) {
        const __half h = __float2half_rn(random_unit(random) * 2.0F);
        halfs[std::size_t{m} * stride + c] = h;
        values[std::size_t{m} * cols + c] = __half2float(h);
      }
    }
    device.emplace(std::span<const __half>(halfs));
  }
  std::uint32_t stride;
  std::vector<float> values;
  std::vector<__half> halfs;
  std::optional<device_array<__half>> device;
};

double relative_error(const std::vector<float>& got, const std::vector<double>& want) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / norm);
}

kernels::packed_matmul_args arguments(const test_matrix& w, const test_input& x, std::uint32_t first,
                                      std::uint32_t columns, const device_array<float>& out) {
  kernels::packed_matmul_args a;
  a.w[0] = w.view;
  a.columns = columns;
  a.x = x.device->data() + std::size_t{first} * x.stride;
  a.x_stride = x.stride;
  a.out = out.data() + std::size_t{first} * w.view.rows;
  a.out_stride = w.view.rows;
  return a;
}

struct shape {
  std::uint32_t rows, cols;
};
std::ostream& operator<<(std::ostream& out, const shape& s) {
  return out << s.rows << "x" << s.cols;
}
const std::vector<shape> shapes{{16, 256}, {72, 768}, {1000, 1536}, {129, 4864}};

/// Every instance of the throughput kernel, and the one that it chooses itself.
struct instance {
  std::uint32_t tile_columns, row_blocks;
};
const std::vector<instance> instances{{0, 0},  {16, 1}, {16, 2}, {16, 4}, {32, 1},
                                      {32, 2}, {32, 4}, {64, 1}, {64, 2}, {128, 0}};

// Both operands are f16: rounding 2^-12 of a weight's range at worst, averaged over a row.
constexpr double tolerance = 1e-3;

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
    all.tile_columns = i.tile_columns;
    all.row_blocks = i.row_blocks;
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
    const auto bits = tiled.read();
    if (got.empty()) {
      got = bits;
      const double error = relative_error(got, want);
      BOOST_TEST(error < tolerance, format << " " << size << ": relative error " << error);
    }
    BOOST_TEST((std::memcmp(bits.data(), got.data(), got.size() * sizeof(float)) == 0),
               format << " " << size << ": tiles of " << i.tile_columns << " columns and " << i.row_blocks
                      << " sets of rows give other bits");
  }

  for (const std::uint32_t step : {1U, 3U, 8U}) {
    device_array<float> narrow(std::size_t{columns} * size.rows);
    for (std::uint32_t first = 0; first < columns; first += step) {
      const auto a = arguments(w, x, first, std::min(step, columns - first), narrow);
      BOOST_REQUIRE_EQUAL(kernels::launch_packed_matvec(a, nullptr), 0);
    }
    const auto bits = narrow.read();
    BOOST_TEST((std::memcmp(bits.data(), got.data(), got.size() * sizeof(float)) == 0),
               format << " " << size << ": " << step << " columns a launch give other bits");
  }
}

/// Gate and up, and stacks of three matrices added to what is there: the two kernels and every instance
/// write the same bits, and nothing else.
BOOST_DATA_TEST_CASE(pairs_and_stacks_agree, boost::unit_test::data::make(formats), format) {
  const std::uint32_t cols = engine::traits_of(format.file).block_elems > 32 ? 1280 : 928;
  constexpr std::uint32_t columns = 77;
  const test_matrix gate(format, 200, cols, 21);
  const test_matrix up(format, 200, cols, 22);
  const test_matrix small(format, 72, cols, 23);
  const test_input x(cols, columns, 24);
  const std::vector<float> before(std::size_t{columns} * 480, 0.25F);
  const std::vector<__half> poison(std::size_t{columns} * 208, __float2half_rn(-7.0F));
  const auto run = [&](bool paired, auto launch) {
    const device_array<float> out{std::span<const float>(before)};
    const device_array<__half> act{std::span<const __half>(poison)};
    kernels::packed_matmul_args a = arguments(gate, x, 0, columns, out);
    a.w[1] = up.view;
    a.w[2] = small.view;
    a.matrices = paired ? 2 : 3;
    a.output = paired ? kernels::matmul_output::swiglu : kernels::matmul_output::add;
    a.out_stride = 480;
    a.act = act.data();
    a.act_stride = 208;
    launch(a);
    std::vector<std::byte> bytes;
    const auto append = [&](const auto& values) {
      const auto* first = reinterpret_cast<const std::byte*>(values.data());
      bytes.insert(bytes.end(), first, first + values.size() * sizeof(values[0]));
    };
    append(out.read());
    append(act.read());
    return bytes;
  };
  for (const bool paired : {false, true}) {
    const auto want = run(paired, [&](const kernels::packed_matmul_args& a) {
      for (std::uint32_t first = 0; first < columns; first += 8) {
        kernels::packed_matmul_args part = a;
        part.columns = std::min(8U, columns - first);
        part.x += std::size_t{first} * a.x_stride;
        part.out += std::size_t{first} * a.out_stride;
        part.act += std::size_t{first} * a.act_stride;
        BOOST_REQUIRE_EQUAL(kernels::launch_packed_matvec(part, nullptr), 0);
      }
    });
    for (const instance& i : instances) {
      const auto got = run(paired, [&](const kernels::packed_matmul_args& a) {
        kernels::tiled_matmul_args all{};
        all.matmul = a;
        all.tile_columns = i.tile_columns;
        all.row_blocks = i.row_blocks;
        BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
      });
      BOOST_TEST((got == want), format << (paired ? " pair" : " stack") << ": tiles of " << i.tile_columns
                                       << " columns and " << i.row_blocks << " sets of rows differ");
    }
  }
}

/// `columns` columns of one launch description by the latency kernel, `step` a launch, and by the throughput
/// kernel: the same bits.
void check_both_kernels(kernels::packed_matmul_args a, std::uint32_t columns, std::uint32_t width,
                        const std::string& what) {
  device_array<float> out(std::size_t{columns} * width);
  a.out = out.data();
  a.out_stride = width;
  a.columns = columns;
  kernels::tiled_matmul_args all{};
  all.matmul = a;
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
  const auto want = out.read();
  for (const std::uint32_t step : {1U, 3U, 8U}) {
    out.fill(0xFF);
    for (std::uint32_t first = 0; first < columns; first += step) {
      kernels::packed_matmul_args part = a;
      part.columns = std::min(step, columns - first);
      part.x += std::size_t{first} * a.x_stride;
      part.out += std::size_t{first} * a.out_stride;
      BOOST_REQUIRE_EQUAL(kernels::launch_packed_matvec(part, nullptr), 0);
    }
    const auto got = out.read();
    BOOST_TEST((std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0),
               what << ": " << step << " columns a launch differ");
  }
}

/// So many rows that a warp has tiles of its own, and so many columns that not all fit in shared memory.
BOOST_DATA_TEST_CASE(heads_and_wide_matrices_agree, boost::unit_test::data::make(formats), format) {
  for (const shape size : {shape{60'000, 512}, shape{48, 28'672}}) {
    const test_matrix w(format, size.rows, size.cols, 31);
    const test_input x(size.cols, 9, 32);
    const device_array<float> none(1);
    check_both_kernels(arguments(w, x, 0, 9, none), 9, size.rows,
                       std::string(engine::traits_of(format.file).name));
  }
}

BOOST_AUTO_TEST_CASE(stacks_of_several_formats_agree) {
  const test_matrix q(formats[5], 200, 1280, 41);
  const test_matrix k(formats[4], 72, 1280, 42);
  const test_matrix v(formats[7], 72, 1280, 43);
  const test_input x(1280, 9, 44);
  const device_array<float> none(1);
  kernels::packed_matmul_args a = arguments(q, x, 0, 9, none);
  a.w[1] = k.view;
  a.w[2] = v.view;
  a.matrices = 3;
  check_both_kernels(a, 9, 344, "q4_k, q8_0, q6_k");
}

/// The norm inside the latency kernel has the bits of the norm kernel, also where a row is wider than a
/// thread's registers.
BOOST_AUTO_TEST_CASE(a_norm_inside_the_product_changes_no_bit) {
  for (const std::uint32_t cols : {256U, 2880U, 4160U, 5120U}) {
    const test_matrix w(formats[0], 100, cols, 51);
    const test_input input(cols, 2, 52);
    const device_array<float> x{std::span<const float>(input.values)};
    std::mt19937_64 random(53);
    std::vector<float> weights(cols);
    for (float& v : weights) v = random_unit(random);
    const device_array<float> norm{std::span<const float>(weights)};
    const std::uint32_t stride = (cols + 63) / 64 * 64;
    const device_array<__half> normed(std::size_t{2} * stride);
    BOOST_REQUIRE_EQUAL(kernels::launch_norm_to_half(
                            {x.data(), norm.data(), cols, 2, nullptr, 1e-5F, normed.data(), stride}, nullptr),
                        0);
    const device_array<float> apart(200);
    const device_array<float> inside(200);
    kernels::packed_matmul_args a = arguments(w, input, 0, 2, apart);
    a.x = normed.data();
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matvec(a, nullptr), 0);
    a.x = nullptr;
    a.norm_x = x.data();
    a.norm_weight = norm.data();
    a.norm_eps = 1e-5F;
    a.out = inside.data();
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matvec(a, nullptr), 0);
    const auto want = apart.read();
    const auto got = inside.read();
    BOOST_TEST((std::memcmp(got.data(), want.data(), got.size() * sizeof(float)) == 0), cols << " columns");
  }
}

BOOST_DATA_TEST_CASE(block_formats_take_columns_that_are_no_multiple_of_64,
                     boost::unit_test::data::make(formats), format) {
  if (engine::traits_of(format.file).block_elems > 32) return;
  const test_matrix w(format, 33, 96, 3);
  const test_input x(96, 5, 5);
  device_array<float> out(5 * 33);
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matvec(arguments(w, x, 0, 5, out), nullptr), 0);
  BOOST_TEST(relative_error(out.read(), w.multiply(x.values, 5)) < tolerance);
}

/// A stack of experts and its bias, beside each expert as a matrix of its own.
struct expert_stack {
  static constexpr std::uint32_t experts = 5, rows = 40, cols = 96;

  explicit expert_stack(const format_pair& format)
      : stride((kernels::packed_bytes(format.packed, rows, cols) + 255) / 256 * 256),
        scales(static_cast<std::uint32_t>(kernels::packed_row_scales(format.packed, rows))),
        data(stride * experts),
        row_scales(std::max(1U, scales * experts)),
        alone(experts) {
    std::mt19937_64 random(3);
    std::vector<float> values(experts * rows);
    for (float& b : values) b = random_unit(random);
    bias.emplace(std::span<const float>(values));
    for (std::uint32_t e = 0; e < experts; ++e) {
      alone[e].emplace(format, rows, cols, 100 + e);
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

  std::uint64_t stride;
  std::uint32_t scales;
  device_array<std::byte> data;
  device_array<float> row_scales;
  std::optional<device_array<float>> bias;
  std::vector<std::optional<test_matrix>> alone;
};

/// Expert stacks give every pair the bits that its expert alone gives its token, bias and row scales
/// included, in both kernels and in any order of the pairs.
BOOST_DATA_TEST_CASE(experts_equal_single_matrices, boost::unit_test::data::make(formats), format) {
  if (engine::traits_of(format.file).block_elems > 32) return;
  constexpr std::uint32_t experts = expert_stack::experts;
  constexpr std::uint32_t rows = expert_stack::rows;
  constexpr std::uint32_t used = 2;
  constexpr std::uint32_t tokens = 90;
  constexpr std::uint32_t pairs = tokens * used;
  const expert_stack stack(format);
  const test_input x(expert_stack::cols, tokens, 9);
  std::vector<std::int32_t> chosen(pairs);
  for (std::uint32_t i = 0; i < pairs; ++i) chosen[i] = static_cast<std::int32_t>((i * 7 + i / 3) % experts);
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
  const device_array<float> one_by_one(pairs * rows);
  a.out = one_by_one.data();
  BOOST_REQUIRE_EQUAL(kernels::launch_packed_matvec(a, nullptr), 0);
  const auto got = one_by_one.read();

  const device_array<float> grouped(pairs * rows);
  const device_array<std::int32_t> order(pairs);
  const device_array<kernels::expert_tile> tiles(kernels::sorted_tiles_max(pairs, experts));
  const device_array<std::int32_t> count(1);
  const kernels::sort_experts_args sort{device_chosen.data(), pairs,        experts,
                                        order.data(),         tiles.data(), count.data()};
  BOOST_REQUIRE_EQUAL(kernels::launch_sort_experts(sort, nullptr), 0);
  a.out = grouped.data();
  all.order = order.data();
  all.tiles = tiles.data();
  all.tile_count = count.data();
  all.tiles_max = kernels::sorted_tiles_max(pairs, experts);
  for (const instance& i : instances) {
    if (i.tile_columns < kernels::expert_tile_columns(pairs, experts)) continue;
    all.tile_columns = i.tile_columns;
    all.row_blocks = i.row_blocks;
    BOOST_REQUIRE_EQUAL(cudaMemset(grouped.data(), 0xFF, grouped.size() * sizeof(float)), cudaSuccess);
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matmul(all, nullptr), 0);
    BOOST_TEST((std::memcmp(grouped.read().data(), got.data(), got.size() * sizeof(float)) == 0),
               format << ": grouped differs with tiles of " << i.tile_columns << " columns and "
                      << i.row_blocks << " sets of rows");
  }

  for (std::uint32_t i = 0; i < pairs; ++i) {
    const auto e = static_cast<std::uint32_t>(chosen[i]);
    const device_array<float> single(rows);
    auto s = arguments(*stack.alone[e], x, i / used, 1, single);
    s.out = single.data();
    s.bias[0] = stack.bias->data() + e * rows;
    BOOST_REQUIRE_EQUAL(kernels::launch_packed_matvec(s, nullptr), 0);
    BOOST_TEST((std::memcmp(single.read().data(), got.data() + i * rows, rows * sizeof(float)) == 0),
               format << ": pair " << i << " of expert " << e << " differs");
  }
}

BOOST_AUTO_TEST_CASE(arguments_that_make_no_sense_are_refused_before_a_launch) {
  const test_matrix w(formats[0], 16, 64, 1);
  const test_input x(64, 9, 1);
  device_array<float> out(9 * 16);
  auto a = arguments(w, x, 0, 9, out);
  BOOST_TEST(kernels::launch_packed_matvec(a, nullptr) != 0);  // nine columns
  a.columns = 0;
  BOOST_TEST(kernels::launch_packed_matvec(a, nullptr) != 0);
  a.columns = 1;
  a.x = nullptr;
  BOOST_TEST(kernels::launch_packed_matvec(a, nullptr) != 0);

  const auto refused = [&](auto change) {
    kernels::tiled_matmul_args all{};
    all.matmul = arguments(w, x, 0, 9, out);
    change(all);
    return kernels::launch_packed_matmul(all, nullptr) != 0;
  };
  const device_array<kernels::expert_tile> tiles(1);
  const device_array<std::int32_t> count(1);
  BOOST_TEST(refused([](auto& all) { all.matmul.columns = 0; }));
  BOOST_TEST(refused([](auto& all) { all.tile_columns = 24; }));
  BOOST_TEST(refused([](auto& all) { all.row_blocks = 3; }));
  BOOST_TEST(refused([&](auto& all) { all.tiles = tiles.data(); }));
  BOOST_TEST(refused([&](auto& all) {  // no width of the tiles
    all.tiles = tiles.data();
    all.tile_count = count.data();
    all.tiles_max = 1;
  }));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
