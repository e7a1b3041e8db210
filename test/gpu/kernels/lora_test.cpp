// What LoRA adapters add against f64, and the same bits whatever else is in the launch; how they get into
// their room.
#include "kernels/layer/lora.hpp"

#include <cuda_fp16.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "test/gpu/device_array.hpp"

namespace orcd::test {
namespace {

using kernels::lora_held;
using kernels::lora_matrix;
using kernels::lora_slot;
using kernels::lora_stride;
using kernels::step_token;

struct shape {
  std::uint32_t in, rank, rank_max;
  std::vector<std::uint32_t> outs;  ///< of the matrices, one after the other in a row of y, behind `gap`
  std::uint32_t gap = 0;
};

enum class reads { halves, floats, tokens };

/// Three adapters (the second without these matrices) over four slots: of all three, of none, of one, of two.
/// Places, rooms and rows have something before and behind them. Columns are in the order of `slot_of`; the
/// first eight are of one slot.
struct problem {
  static constexpr std::uint32_t columns = 13;
  static constexpr std::uint32_t one_slot = 8;
  static constexpr std::uint32_t adapters = 3, places = 5, first_place = 1, in_front = 12;

  shape size;
  std::uint32_t x_stride, y_stride;
  std::uint64_t room;
  std::vector<lora_matrix> matrices;
  std::vector<float> values, x, y;
  std::vector<__half> halves;
  std::vector<lora_held> held;
  std::vector<lora_slot> slots;
  std::vector<step_token> steps;

  explicit problem(shape s) : size(std::move(s)) {
    std::mt19937_64 random(size.in * 131 + size.outs.front() * 17 + size.rank);
    std::uniform_real_distribution<float> some(-1.0F, 1.0F);
    const auto fill = [&](std::vector<float>& to, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) to.push_back(some(random));
    };
    x_stride = size.in + (size.in % 8 == 0 ? 64 : 3);
    std::uint32_t at = size.gap;
    room = in_front;
    for (const std::uint32_t out : size.outs) {
      const auto place = first_place + static_cast<std::uint32_t>(matrices.size());
      const std::uint64_t b_at = room + size.rank_max * lora_stride(size.in);
      matrices.push_back({place, out, at, room, b_at});
      room = b_at + size.rank_max * lora_stride(out);
      at += out;
    }
    y_stride = at + size.gap;
    fill(values, adapters * room);
    fill(x, std::size_t{columns} * x_stride);
    fill(y, std::size_t{columns} * y_stride);
    for (float& v : x) {
      halves.push_back(__float2half_rn(v));
      v = __half2float(halves.back());
    }
    const auto rank = static_cast<std::int32_t>(size.rank);
    held.resize(adapters * places);
    for (std::size_t m = 0; m < matrices.size(); ++m) {
      held[first_place + m] = {rank, 0.5F};
      held[2 * places + first_place + m] = {rank > 1 ? rank - 1 : 1, 2.0F};
    }
    held[first_place + matrices.size() - 1].rank = 1;  // the matrices of an adapter have ranks of their own
    slots = {{3, {{0, 1.5F}, {1, 1.0F}, {2, -0.5F}}}, {}, {1, {{2, 0.75F}}}, {2, {{1, 3.0F}, {0, 1.0F}}}};
    constexpr std::array<std::int32_t, columns> slot_of{0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 1, 2};
    for (std::uint32_t c = 0; c < columns; ++c)
      steps.push_back({static_cast<std::int32_t>((c * 31 + 5) % size.in), 0, slot_of[c]});
    steps[2].token = -1;
  }

  /// `rows`: the columns that the launch has; `one`: it is told that they are of one slot; `finds`: what they
  /// have has been found before, and is also asked for as if it were the next product's.
  [[nodiscard]] std::vector<float> run(reads what, std::uint32_t first, std::uint32_t count, bool one = false,
                                       bool by_rows = false, bool finds = false) const {
    const device_array<float> d_values(values), d_x(x);
    device_array<float> d_y(y);
    device_array<float> inner(std::size_t{columns} * kernels::lora_matrices_max * kernels::lora_adapters_max *
                              size.rank_max);
    const device_array<__half> d_halves(halves);
    const device_array<lora_held> d_held(held);
    const device_array<lora_slot> d_slots(slots);
    const device_array<step_token> d_steps(steps);
    std::vector<std::int32_t> rows;
    for (std::uint32_t c = 0; c < count; ++c) rows.push_back(static_cast<std::int32_t>(first + c));
    const device_array<std::int32_t> d_rows(rows);
    kernels::lora_add_args args;
    args.of = {d_steps.data() + (by_rows ? 0 : first), by_rows ? d_rows.data() : nullptr, d_slots.data(),
               count, one};
    args.tables.held = d_held.data();
    args.tables.places = places;
    args.tables.values = d_values.data();
    args.tables.room = room;
    std::copy(matrices.begin(), matrices.end(), args.matrices);
    args.count = static_cast<std::uint32_t>(matrices.size());
    args.in = size.in;
    args.rank_max = size.rank_max;
    if (what == reads::halves) args.halves = d_halves.data() + std::size_t{first} * x_stride;
    if (what == reads::floats) args.floats = d_x.data() + std::size_t{first} * x_stride;
    args.x_stride = x_stride;
    args.inner = inner.data();
    args.y = d_y.data() + std::size_t{first} * y_stride;
    args.y_stride = y_stride;
    const device_array<kernels::lora_found> found(std::size_t{columns} * places * kernels::lora_adapters_max);
    kernels::lora_sequel sequel;
    if (finds) {
      const kernels::lora_find_args all{
          {args.of.steps, nullptr, d_slots.data(), by_rows ? columns : count, false},
          args.tables,
          found.data()};
      BOOST_REQUIRE_EQUAL(kernels::launch_lora_find(all, nullptr), 0);
      BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);  // a pass has kernels between these two
      std::copy(matrices.begin(), matrices.end(), sequel.next.matrices);
      sequel.next.count = args.count;
      sequel.next.in = size.in;
      sequel.found = found.data();
    }
    BOOST_REQUIRE_EQUAL(kernels::launch_lora(args, nullptr, sequel), 0);
    return d_y.read();
  }

  /// The value that belongs at `column` and `row` of a matrix, and the most that its roundings may come to.
  [[nodiscard]] std::pair<double, double> want(reads what, std::uint32_t column, const lora_matrix& matrix,
                                               std::uint32_t row) const {
    double sum = y[std::size_t{column} * y_stride + matrix.y_at + row], magnitude = std::fabs(sum);
    const lora_slot& slot = slots[static_cast<std::size_t>(steps[column].slot)];
    for (std::int32_t n = 0; n < slot.count; ++n) {
      const auto adapter = static_cast<std::size_t>(slot.uses[n].adapter);
      const lora_held& pair = held[adapter * places + matrix.place];
      const float* a = values.data() + adapter * room + matrix.a_at;
      const float* b = values.data() + adapter * room + matrix.b_at + row;
      const double factor = static_cast<double>(slot.uses[n].strength) * pair.scale;
      for (std::uint32_t r = 0; r < static_cast<std::uint32_t>(pair.rank); ++r) {
        for (std::uint32_t c = 0; c < size.in; ++c) {
          const bool token = what == reads::tokens;
          if (token && steps[column].token != static_cast<std::int32_t>(c)) continue;
          const double in = token ? 1.0 : x[std::size_t{column} * x_stride + c];
          const double term = factor * b[r * lora_stride(matrix.out)] * a[r * lora_stride(size.in) + c] * in;
          sum += term;
          magnitude += std::fabs(term);
        }
      }
    }
    return {sum, magnitude * (size.in / 128.0 + size.rank + 24) * 0x1p-24};
  }

  /// Whether a value of y belongs to a matrix.
  [[nodiscard]] bool is_output(std::uint32_t at) const { return at >= size.gap && at < y_stride - size.gap; }
};

std::vector<shape> shapes() {
  return {{64, 8, 8, {48}, 4},         {96, 16, 16, {300, 44, 44}, 8}, {130, 3, 5, {64, 7}, 1},
          {1040, 64, 64, {33, 32}, 0}, {7, 1, 1, {5, 3, 2}, 2},        {896, 16, 16, {896, 128, 128}, 0},
          {4864, 16, 32, {896}, 0},    {64, 5, 700, {48, 48, 48}, 4}};
}

constexpr reads every[] = {reads::halves, reads::floats, reads::tokens};

bool same_bits(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lora)

BOOST_AUTO_TEST_CASE(agrees_with_f64_and_leaves_everything_else_alone) {
  for (const shape& s : shapes()) {
    const problem p(s);
    for (const reads what : every) {
      const std::vector<float> got = p.run(what, 0, problem::columns);
      std::size_t changed = 0;
      for (std::uint32_t column = 0; column < problem::columns; ++column) {
        const std::size_t row_at = std::size_t{column} * p.y_stride;
        for (std::uint32_t at = 0; at < p.y_stride; ++at) {
          if (p.steps[column].slot == 1 || !p.is_output(at))
            BOOST_TEST_REQUIRE(same_bits(got[row_at + at], p.y[row_at + at]));
        }
        for (const lora_matrix& matrix : p.matrices) {
          for (std::uint32_t row = 0; row < matrix.out; ++row) {
            const auto [want, bound] = p.want(what, column, matrix, row);
            const std::size_t at = row_at + matrix.y_at + row;
            BOOST_TEST_REQUIRE(std::fabs(got[at] - want) <= bound, got[at] << ", not " << want);
            changed += got[at] != p.y[at];
          }
        }
      }
      BOOST_TEST(changed > 0U);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_column_has_the_same_bits_alone_and_by_any_kernel) {
  for (const shape& s : shapes()) {
    const problem p(s);
    for (const reads what : every) {
      const std::vector<float> all = p.run(what, 0, problem::columns);
      const auto compare = [&](const std::vector<float>& got, std::uint32_t first, std::uint32_t count) {
        for (std::size_t at = std::size_t{first} * p.y_stride; at < std::size_t{first + count} * p.y_stride;
             ++at) {
          BOOST_TEST_REQUIRE(same_bits(got[at], all[at]));
        }
      };
      for (std::uint32_t column = 0; column < problem::columns; ++column)
        compare(p.run(what, column, 1), column, 1);
      for (const std::uint32_t count : {1U, 2U, 3U, 5U, problem::one_slot})
        compare(p.run(what, 0, count, true), 0, count);
      compare(p.run(what, 1, 7, true), 1, 7);
      compare(p.run(what, 6, 6, false, true), 6, 6);
      compare(p.run(what, 6, 6, false, true, true), 6, 6);
      compare(p.run(what, 0, problem::columns, false, false, true), 0, problem::columns);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_matrix_has_the_same_bits_without_the_others) {
  const problem p({96, 16, 16, {300, 44, 44}, 8});
  const std::vector<float> all = p.run(reads::halves, 0, problem::columns);
  problem one = p;
  one.matrices = {p.matrices[1]};
  const std::vector<float> got = one.run(reads::halves, 0, problem::columns);
  for (std::uint32_t column = 0; column < problem::columns; ++column) {
    for (std::uint32_t at = 0; at < p.y_stride; ++at) {
      const bool own = at >= p.matrices[1].y_at && at < p.matrices[2].y_at;
      const std::size_t i = std::size_t{column} * p.y_stride + at;
      BOOST_TEST_REQUIRE(same_bits(got[i], own ? all[i] : p.y[i]));
    }
  }
}

BOOST_AUTO_TEST_CASE(stored_matrices_lie_where_they_are_read) {
  constexpr std::uint32_t out = 70, rank = 5;
  std::vector<float> b(std::size_t{out} * rank);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i + 1);
  device_array<float> room(rank * lora_stride(out));
  room.fill(0);
  // In pieces that begin and end within rows.
  for (std::uint64_t first = 0; first < b.size();) {
    const auto count = std::min<std::uint64_t>(first == 0 ? 7 : 128, b.size() - first);
    const std::vector<float> piece(b.begin() + static_cast<std::ptrdiff_t>(first),
                                   b.begin() + static_cast<std::ptrdiff_t>(first + count));
    const device_array<float> from(piece);
    const kernels::lora_store_args args{from.data(), first, count, rank, 1, lora_stride(out), room.data()};
    BOOST_REQUIRE_EQUAL(kernels::launch_lora_store(args, nullptr), 0);
    static_cast<void>(room.read());  // waits
    first += count;
  }
  const std::vector<float> got = room.read();
  for (std::uint32_t r = 0; r < rank; ++r) {
    for (std::uint32_t row = 0; row < lora_stride(out); ++row) {
      const float want = row < out ? b[std::size_t{row} * rank + r] : 0.0F;
      BOOST_TEST_REQUIRE(got[r * lora_stride(out) + row] == want);
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
  BOOST_TEST(kernels::launch_lora({}, nullptr) != 0);
  BOOST_TEST(kernels::launch_lora_store({}, nullptr) != 0);
  BOOST_TEST(kernels::launch_lora_find({}, nullptr) != 0);
  BOOST_TEST(kernels::load_lora_kernels() == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
