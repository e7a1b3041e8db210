// The kernels of towers besides attention, against the host's and against f64.
#include "engine/media/tower.hpp"

#include <cuda_fp16.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "engine/media/prepare_picture.hpp"
#include "gpu/host/view_layout.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/rope.hpp"
#include "kernels/product/packed_matrix.hpp"
#include "kernels/tower/given_rows.hpp"
#include "kernels/tower/tower_attention.hpp"
#include "kernels/tower/tower_heads.hpp"
#include "kernels/tower/tower_input.hpp"
#include "kernels/tower/tower_rows.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/random_blocks.hpp"
#include "test/unit/media/made_picture.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;
constexpr double half_step = 0x1p-11;

std::vector<float> random_values(std::size_t count, std::uint64_t seed, float size = 2.0F) {
  std::mt19937_64 random(seed);
  std::vector<float> out(count);
  for (float& v : out) v = random_unit(random) * size;
  return out;
}
template <class T>
device_array<T> on_device(const std::vector<T>& values) {
  return device_array<T>(std::span<const T>(values));
}

/// A view of some lines and columns of patches, in the order of a tower with windows of two rows a side.
engine::tower_spec small_tower(engine::tower_rotation rotation, std::uint32_t heads, std::uint32_t head) {
  engine::tower_spec spec;
  spec.heads = heads;
  spec.width = heads * head;
  spec.rotation = rotation;
  spec.window = 4;
  spec.pictures.merge = 2;
  spec.pictures.patch = 3;
  spec.pictures.factor = 6;
  spec.pictures.layout = engine::picture_layout::budget;
  spec.pictures.rows_max = 64;
  return spec;
}

double gelu_of(double x, kernels::tower_activation form) {
  switch (form) {
    case kernels::tower_activation::exact: return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case kernels::tower_activation::sigmoid: return x / (1 + std::exp(-1.702 * x));
    case kernels::tower_activation::silu_gate: return x / (1 + std::exp(-x));
    default: return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
}

/// Pairs of a value and what it should be: f16 of f32 arithmetic.
void check_half(__half got, double want, const char* what, std::size_t at, double slack = 1e-5) {
  BOOST_TEST_REQUIRE(std::fabs(__half2float(got) - want) <= half_step * std::fabs(want) + slack,
                     what << " " << at << ": " << __half2float(got) << ", not " << want);
}

/// Rows of Q | K | V of a view, which kernels and the host make heads of.
struct head_rows {
  head_rows(engine::tower_rotation turned, std::uint32_t head, bool normed)
      : spec(small_tower(turned, heads, head)),
        width(head),
        row(3 * heads * head),
        norms(normed),
        pool(1),
        layout(spec),
        qkv(random_values(std::size_t{patches} * row, head, 1.0F)),
        q_norm(random_values(head, 8)),
        k_norm(random_values(head, 9)) {
    layout.set(lines, columns, pool);
  }

  /// [Q, K, V][heads][patches][padded].
  [[nodiscard]] std::vector<__half> by_kernels() const;
  [[nodiscard]] std::vector<float> by_host();

  static constexpr std::uint32_t heads = 3, lines = 6, columns = 8, patches = lines * columns;
  engine::tower_spec spec;
  std::uint32_t width, row;
  bool norms;
  kernels::host::thread_pool pool;
  gpu::view_layout layout;
  std::vector<float> qkv, q_norm, k_norm;
};

kernels::turned_pairs pairs_of(engine::tower_rotation rotation) {
  return rotation == engine::tower_rotation::none     ? kernels::turned_pairs::none
         : rotation == engine::tower_rotation::joined ? kernels::turned_pairs::halves
         : rotation == engine::tower_rotation::parted ? kernels::turned_pairs::quarters
                                                      : kernels::turned_pairs::neighbours;
}

/// In two launches, since a view may go through products in parts.
std::vector<__half> head_rows::by_kernels() const {
  const std::vector<kernels::view_place> places(layout.places().begin(), layout.places().end());
  const auto device_qkv = on_device(qkv), device_q = on_device(q_norm), device_k = on_device(k_norm);
  const auto device_places = on_device(places);
  const device_array<float2> table(std::size_t{patches} * width / 2);
  if (spec.rotation != engine::tower_rotation::none) {
    const auto rates = on_device(gpu::turn_rates(spec));
    BOOST_REQUIRE_EQUAL(
        kernels::launch_turn_table({device_places.data(), rates.data(), patches, width / 2,
                                    spec.rotation != engine::tower_rotation::parted, table.data()},
                                   nullptr),
        0);
    BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
  }
  const std::size_t values = std::size_t{heads} * patches * kernels::tower_head_width(width);
  const device_array<__half> out(3 * values);
  constexpr std::uint32_t some = 5;
  for (const auto& [first, count] : {std::pair{0U, some}, std::pair{some, patches - some}}) {
    kernels::tower_heads_args a;
    a.qkv = device_qkv.data() + std::size_t{first} * row;
    a.columns = count;
    a.first = first;
    a.positions = patches;
    a.heads = heads;
    a.width = width;
    a.norms = norms;
    a.q_norm = device_q.data();
    a.k_norm = device_k.data();
    a.eps = 1e-3F;
    a.pairs = pairs_of(spec.rotation);
    a.table = table.data();
    a.q = out.data();
    a.k = out.data() + values;
    a.v = out.data() + 2 * values;
    BOOST_REQUIRE_EQUAL(kernels::launch_tower_heads(a, nullptr), 0);
  }
  return out.read();
}

/// [patches][row].
std::vector<float> head_rows::by_host() {
  std::vector<float> out = qkv;
  for (std::uint32_t part = 0; norms && part < 3; ++part) {
    float* const x = out.data() + part * heads * width;
    kernels::host::rms_norm({.x = x,
                             .out = x,
                             .weight = part == 0   ? q_norm.data()
                                       : part == 1 ? k_norm.data()
                                                   : nullptr,
                             .x_stride = row,
                             .out_stride = row,
                             .rows = patches,
                             .heads = heads,
                             .width = width,
                             .eps = 1e-3F},
                            pool);
  }
  for (std::uint32_t turn = 0; turn < layout.turns(); ++turn)
    kernels::host::rope({.x = out.data() + layout.part(turn),
                         .cosines = layout.cosines(turn),
                         .sines = layout.sines(turn),
                         .x_stride = row,
                         .columns = patches,
                         .heads = 2 * heads,
                         .head_width = width,
                         .pairs = layout.pairs(),
                         .interleaved = layout.adjacent()},
                        pool);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(towers)

BOOST_AUTO_TEST_CASE(patches_are_those_of_the_host) {
  const engine::tower_spec spec = small_tower(engine::tower_rotation::none, 2, 8);
  gpu::view_places places(spec);
  places.set(6, 10);
  const engine::picture view = made_picture(30, 18);
  engine::picture_rules rules = spec.pictures;
  rules.mean = {0.5F, 0.4F, 0.3F};
  rules.deviation = {0.2F, 0.3F, 0.4F};
  std::vector<float> values(768);
  engine::fill_pixel_values(rules, values);
  const std::vector<kernels::view_place> all(places.places().begin(), places.places().end());
  constexpr std::uint32_t stride = 64, taken = 27;
  const auto rgb = on_device(view.rgb);
  const auto device_places = on_device(all);
  const auto device_values = on_device(values);
  const device_array<__half> out(all.size() * stride);
  BOOST_REQUIRE_EQUAL(
      kernels::launch_gather_patches({rgb.data(), view.width, 3, device_places.data(), device_values.data(),
                                      static_cast<std::uint32_t>(all.size()), out.data(), stride},
                                     nullptr),
      0);
  const auto got = out.read();
  std::vector<float> want(taken);
  for (std::size_t i = 0; i < all.size(); ++i) {
    engine::copy_patch(view, rules, all[i].column * 3, all[i].line * 3, values, want);
    for (std::uint32_t j = 0; j < stride; ++j)
      BOOST_TEST_REQUIRE(__half2float(got[i * stride + j]) ==
                         __half2float(__float2half_rn(j < taken ? want[j] : 0.0F)));
  }
}

BOOST_AUTO_TEST_CASE(places_of_a_sound_have_their_neighbours) {
  constexpr std::uint32_t places = 9, channels = 5, stride = 64;
  const auto x = random_values(places * channels, 1);
  const auto device = on_device(x);
  for (const std::uint32_t step : {1U, 2U}) {
    for (const bool activate : {false, true}) {
      const std::uint32_t rows = (places + step - 1) / step;
      const device_array<__half> out(rows * stride);
      BOOST_REQUIRE_EQUAL(kernels::launch_spread_places(
                              {device.data(), places, channels, step, activate, out.data(), stride}, nullptr),
                          0);
      const auto got = out.read();
      for (std::uint32_t row = 0; row < rows; ++row) {
        for (std::uint32_t i = 0; i < stride; ++i) {
          const int place = static_cast<int>(row * step + i % 3) - 1;
          const bool there = i / 3 < channels && place >= 0 && place < static_cast<int>(places);
          double want = there ? x[static_cast<std::size_t>(place) * channels + i / 3] : 0.0;
          if (activate) want = gelu_of(want, kernels::tower_activation::exact);
          check_half(got[row * stride + i], want, "place", row * stride + i, 1e-6);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(positions_are_added_by_place) {
  constexpr std::uint32_t lines = 3, columns = 5, side = 8, width = 70, patches = lines * columns;
  const auto rows = random_values(std::size_t{side} * side * width, 2);
  const auto x = random_values(std::size_t{patches} * width, 3);
  std::vector<kernels::view_place> places;
  for (std::uint32_t i = 0; i < patches; ++i) places.push_back({i % lines, i / lines});
  const auto device_rows = on_device(rows);
  const auto device_places = on_device(places);
  const auto row = [&](std::uint32_t at, std::uint32_t c) {
    return double{rows[std::size_t{at} * width + c]};
  };
  const auto between = [&](kernels::view_place at, std::uint32_t c) {
    const double y = at.line * (side - 1.0) / (lines - 1), z = at.column * (side - 1.0) / (columns - 1);
    const auto y0 = static_cast<std::uint32_t>(y), x0 = static_cast<std::uint32_t>(z);
    const std::uint32_t y1 = std::min(y0 + 1, side - 1), x1 = std::min(x0 + 1, side - 1);
    const double b = y - y0, a = z - x0;
    return (1 - b) * (1 - a) * row(y0 * side + x0, c) + (1 - b) * a * row(y0 * side + x1, c) +
           b * (1 - a) * row(y1 * side + x0, c) + b * a * row(y1 * side + x1, c);
  };
  for (const auto form :
       {kernels::position_rows::each, kernels::position_rows::between, kernels::position_rows::by_side}) {
    for (const bool activate : {false, true}) {
      const auto device = on_device(x);
      BOOST_REQUIRE_EQUAL(kernels::launch_add_places({device.data(), device_rows.data(), device_places.data(),
                                                      form, side, lines, columns, width, patches, activate},
                                                     nullptr),
                          0);
      const auto got = device.read();
      for (std::size_t i = 0; i < got.size(); ++i) {
        const kernels::view_place at = places[i / width];
        const auto c = static_cast<std::uint32_t>(i % width);
        double want = activate ? gelu_of(x[i], kernels::tower_activation::exact) : x[i];
        if (form == kernels::position_rows::each) want += row(at.line * columns + at.column, c);
        if (form == kernels::position_rows::between) want += between(at, c);
        if (form == kernels::position_rows::by_side) want += row(at.column, c) + row(side + at.line, c);
        BOOST_TEST_REQUIRE(std::fabs(got[i] - want) < 1e-5,
                           "form " << static_cast<int>(form) << ", value " << i);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(heads_are_normed_and_turned_as_on_the_host) {
  using enum engine::tower_rotation;
  for (const engine::tower_rotation rotation : {none, joined, parted, adjacent}) {
    for (const std::uint32_t width : {16U, 20U, 72U}) {
      for (const bool norms : {false, true}) {
        head_rows of(rotation, width, norms);
        const std::vector<float> want = of.by_host();
        const std::vector<__half> got = of.by_kernels();
        const std::uint32_t padded = kernels::tower_head_width(width);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const std::size_t d = i % padded, patch = i / padded % head_rows::patches;
          const std::size_t head = i / padded / head_rows::patches;
          check_half(got[i], d < width ? want[patch * of.row + head * width + d] : 0.0, "value of a head", i,
                     2e-5);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(norms_in_place) {
  for (const std::uint32_t width : {32U, 70U, 3000U}) {
    const auto x = random_values(std::size_t{3} * width, width), weight = random_values(width, 4),
               bias = random_values(width, 5);
    const auto dw = on_device(weight), db = on_device(bias);
    for (const bool centred : {false, true}) {
      const auto device = on_device(x);
      BOOST_REQUIRE_EQUAL(
          kernels::launch_norm_rows(
              {device.data(), dw.data(), centred ? db.data() : nullptr, width, 3, 1e-2F, centred}, nullptr),
          0);
      const auto got = device.read();
      for (std::uint32_t m = 0; m < 3; ++m) {
        double mean = 0.0, squares = 0.0;
        for (std::uint32_t i = 0; centred && i < width; ++i) mean += double{x[m * width + i]} / width;
        for (std::uint32_t i = 0; i < width; ++i) squares += std::pow(x[m * width + i] - mean, 2) / width;
        for (std::uint32_t i = 0; i < width; ++i) {
          const double want =
              (x[m * width + i] - mean) / std::sqrt(squares + 1e-2) * weight[i] + (centred ? bias[i] : 0.0F);
          BOOST_TEST_REQUIRE(std::fabs(got[m * width + i] - want) < 1e-5);
        }
      }
    }
  }
}

BOOST_DATA_TEST_CASE(activations_match_f64, data::xrange(5), number) {
  const auto form = static_cast<kernels::tower_activation>(number);
  constexpr std::uint32_t width = 70, rows = 4, stride = 128;
  const std::uint32_t row = kernels::has_gate(form) ? 2 * width : width;
  const auto x = random_values(std::size_t{rows} * row, 6, 9.0F);
  const auto device = on_device(x);
  const device_array<__half> out(rows * stride);
  BOOST_REQUIRE_EQUAL(
      kernels::launch_activate_rows({device.data(), width, rows, form, out.data(), stride}, nullptr), 0);
  const auto got = out.read();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::size_t m = i / stride, c = i % stride;
    double want = c < width ? gelu_of(x[m * row + c], form) : 0.0;
    if (kernels::has_gate(form) && c < width) want *= x[m * row + width + c];
    check_half(got[i], want, "activation", i);
  }
}

BOOST_AUTO_TEST_CASE(limits_hold_and_padding_stays_zero) {
  constexpr std::uint32_t width = 40, stride = 64, rows = 3;
  const auto x = random_values(rows * stride, 7);
  std::vector<__half> halves;
  for (std::size_t i = 0; i < x.size(); ++i)
    halves.push_back(__float2half_rn(i % stride < width ? x[i] : 0.0F));
  const auto device_halves = on_device(halves);
  const device_array<__half> clipped(halves.size());
  BOOST_REQUIRE_EQUAL(kernels::launch_clip_halves(
                          {device_halves.data(), clipped.data(), stride, width, rows, 0.25F, 0.75F}, nullptr),
                      0);
  const auto got = clipped.read();
  for (std::size_t i = 0; i < got.size(); ++i) {
    const float want = i % stride < width ? std::clamp(__half2float(halves[i]), 0.25F, 0.75F) : 0.0F;
    BOOST_TEST_REQUIRE(__half2float(got[i]) == want);
  }
  const auto y = random_values(rows * width, 8);
  const auto in_place = on_device(x), added = on_device(y);
  BOOST_REQUIRE_EQUAL(
      kernels::launch_clip_rows({in_place.data(), stride, width, rows, -0.5F, 0.5F, added.data()}, nullptr),
      0);
  const auto sums = added.read();
  for (std::size_t i = 0; i < sums.size(); ++i)
    BOOST_TEST_REQUIRE(sums[i] == y[i] + std::clamp(x[i / width * stride + i % width], -0.5F, 0.5F));
  BOOST_REQUIRE_EQUAL(kernels::launch_clip_rows({in_place.data(), stride, width, rows, -0.5F, 0.5F}, nullptr),
                      0);
  const auto limited = in_place.read();
  for (std::size_t i = 0; i < limited.size(); ++i)
    BOOST_TEST_REQUIRE(limited[i] == (i % stride < width ? std::clamp(x[i], -0.5F, 0.5F) : x[i]));
}

BOOST_AUTO_TEST_CASE(squares_of_patches_become_rows) {
  constexpr std::uint32_t side = 2, lines = 4, columns = 6, width = 35, patches = lines * columns,
                          rows = patches / (side * side);
  const auto x = random_values(std::size_t{patches} * width, 10), bias = random_values(width, 11),
             factor = random_values(width, 12);
  std::vector<std::uint32_t> patch_at;
  for (std::uint32_t i = 0; i < patches; ++i) patch_at.push_back((i * 7 + 3) % patches);
  const auto dx = on_device(x), db = on_device(bias), df = on_device(factor);
  const auto da = on_device(patch_at);
  kernels::merge_patches_args a;
  a.x = dx.data();
  a.patch_at = da.data();
  a.columns = columns;
  a.side = side;
  a.width = width;
  a.rows = rows;
  const auto patch_of = [&](std::size_t row, std::size_t within) {
    const std::size_t line = row / (columns / side) * side + within / side;
    return patch_at[line * columns + row % (columns / side) * side + within % side];
  };
  for (const bool by_channel : {false, true}) {
    a.by_channel = by_channel;
    a.out_stride = kernels::padded_cols(a.row_width());
    const device_array<__half> out(std::size_t{rows} * a.out_stride);
    a.out_halves = out.data();
    BOOST_REQUIRE_EQUAL(kernels::launch_merge_patches(a, nullptr), 0);
    const auto got = out.read();
    for (std::size_t i = 0; i < got.size(); ++i) {
      const std::size_t at = i % a.out_stride, row = i / a.out_stride;
      const std::size_t within = by_channel ? at % 4 : at / width, c = by_channel ? at / 4 : at % width;
      const float want = at < 4 * width ? x[patch_of(row, within) * width + c] : 0.0F;
      BOOST_TEST_REQUIRE(__half2float(got[i]) == __half2float(__float2half_rn(want)), "value " << i);
    }
  }
  a.out_halves = nullptr;
  a.average = true;
  a.scale = 3.0F;
  a.bias = db.data();
  a.factor = df.data();
  a.out_stride = width;
  const device_array<float> means(std::size_t{rows} * width);
  a.out = means.data();
  BOOST_REQUIRE_EQUAL(kernels::launch_merge_patches(a, nullptr), 0);
  const auto got = means.read();
  for (std::size_t i = 0; i < got.size(); ++i) {
    double sum = 0.0;
    for (std::size_t within = 0; within < 4; ++within)
      sum += x[patch_of(i / width, within) * width + i % width];
    BOOST_TEST_REQUIRE(std::fabs(got[i] - (sum / 4 * 3 - bias[i % width]) * factor[i % width]) < 1e-5);
  }
  // Of a sound, one after the other.
  a = {.x = dx.data(), .side = 4, .width = width, .rows = rows};
  a.out_stride = 4 * width;
  const device_array<float> joined(x.size());
  a.out = joined.data();
  BOOST_REQUIRE_EQUAL(kernels::launch_merge_patches(a, nullptr), 0);
  BOOST_TEST((joined.read() == x));
}

BOOST_AUTO_TEST_CASE(rows_are_kept_in_blocks_and_given_back) {
  constexpr std::uint32_t width = 12, parts = 2, block_rows = 4, rows = 6;
  const device_array<float> memory(std::size_t{5} * block_rows * width * parts);
  const kernels::row_store store{memory.data(), block_rows, width * parts, width};
  const std::vector<std::uint32_t> blocks{3, 1};
  const auto device_blocks = on_device(blocks);
  std::vector<std::vector<float>> sent;
  for (std::uint32_t part = 0; part < parts; ++part) {
    sent.push_back(random_values(std::size_t{rows} * width, 20 + part));
    const auto x = on_device(sent.back());
    for (const auto& [first, count] : {std::pair{0U, 2U}, std::pair{2U, rows - 2}})
      BOOST_REQUIRE_EQUAL(
          kernels::launch_store_rows(
              {store, device_blocks.data(), x.data() + first * width, first, count, part}, nullptr),
          0);
    BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
  }
  // Rows 5, 0 and 3 of the medium.
  const std::vector<kernels::given_row> given{{2, 1 * 4 + 1}, {0, 3 * 4}, {3, 3 * 4 + 3}};
  const std::vector<std::size_t> row_of{5, 0, 3};
  const auto device_given = on_device(given);
  const auto before = random_values(std::size_t{4} * width, 30);
  const auto stream = on_device(before);
  BOOST_REQUIRE_EQUAL(
      kernels::launch_give_rows({store, device_given.data(), 3, 0, 0.5F, false, stream.data()}, nullptr), 0);
  BOOST_REQUIRE_EQUAL(
      kernels::launch_give_rows({store, device_given.data(), 3, 1, 1.0F, true, stream.data()}, nullptr), 0);
  const auto got = stream.read();
  std::vector<float> want = before;
  for (std::size_t i = 0; i < given.size(); ++i)
    for (std::size_t c = 0; c < width; ++c)
      want[static_cast<std::size_t>(given[i].column) * width + c] =
          sent[0][row_of[i] * width + c] * 0.5F + sent[1][row_of[i] * width + c];
  BOOST_TEST((got == want));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
