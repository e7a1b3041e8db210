// What adapters add against f64, and the same bits whatever else is in the launch.
#include "kernels/layer/lora.hpp"

#include <cuda_fp16.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "test/gpu/device_array.hpp"

namespace orcd::test {
namespace {

using kernels::lora_held;
using kernels::lora_slot;
using kernels::step_token;

struct shape {
  std::uint32_t in, out, rank;
};

/// Three adapters (the second without this matrix) over three slots: of one, of none, of all three.
struct problem {
  static constexpr std::uint32_t columns = 5;

  shape size;
  std::vector<float> values, x, y;
  std::vector<__half> halves;
  std::vector<lora_held> held;
  std::vector<lora_slot> slots;
  std::vector<step_token> steps;
  std::uint64_t room;

  explicit problem(shape s) : size(s), room(std::uint64_t{s.rank} * (s.in + s.out)) {
    std::mt19937_64 random(s.in * 131 + s.out * 17 + s.rank);
    std::uniform_real_distribution<float> some(-1.0F, 1.0F);
    const auto fill = [&](std::vector<float>& to, std::size_t count) {
      for (std::size_t i = 0; i < count; ++i) to.push_back(some(random));
    };
    fill(values, 3 * room);
    fill(x, std::size_t{columns} * s.in);
    fill(y, std::size_t{columns} * s.out);
    for (float& v : x) {
      halves.push_back(__float2half_rn(v));
      v = __half2float(halves.back());
    }
    const auto rank = static_cast<std::int32_t>(s.rank);
    held = {{rank, 0.5F}, {0, 1.0F}, {rank > 1 ? rank - 1 : 1, 2.0F}};
    slots = {{1, {{2, 0.75F}}}, {}, {3, {{0, 1.5F}, {1, 1.0F}, {2, -0.5F}}}};
    const std::int32_t slot_of[columns] = {2, 1, 0, 2, 0};
    for (std::uint32_t c = 0; c < columns; ++c) {
      steps.push_back({static_cast<std::int32_t>(c * 31 % s.in), 0, slot_of[c]});
    }
  }

  enum class reads { halves, floats, tokens };

  [[nodiscard]] std::vector<float> run(reads what, std::uint32_t first, std::uint32_t count) const {
    const device_array<float> d_values(values), d_x(x);
    device_array<float> d_y(y), inner(std::size_t{columns} * kernels::lora_adapters_max * size.rank);
    const device_array<__half> d_halves(halves);
    const device_array<lora_held> d_held(held);
    const device_array<lora_slot> d_slots(slots);
    const device_array<step_token> d_steps(steps);
    kernels::lora_args args;
    args.of = {d_steps.data() + first, nullptr, d_slots.data(), count, 3};
    args.held = d_held.data();
    args.places = 1;
    args.values = d_values.data();
    args.room = room;
    args.b_at = std::uint64_t{size.rank} * size.in;
    args.in = size.in;
    args.out = size.out;
    args.rank_max = size.rank;
    if (what == reads::halves) args.halves = d_halves.data() + std::size_t{first} * size.in;
    if (what == reads::floats) args.floats = d_x.data() + std::size_t{first} * size.in;
    args.x_stride = size.in;
    args.inner = inner.data();
    args.y = d_y.data() + std::size_t{first} * size.out;
    args.y_stride = size.out;
    BOOST_REQUIRE_EQUAL(kernels::launch_lora(args, nullptr), 0);
    return d_y.read();
  }

  /// The value that belongs at `column`, `row`, and the most that its roundings may come to.
  [[nodiscard]] std::pair<double, double> want(reads what, std::uint32_t column, std::uint32_t row) const {
    double sum = y[std::size_t{column} * size.out + row], magnitude = std::fabs(sum);
    const lora_slot& slot = slots[static_cast<std::size_t>(steps[column].slot)];
    for (std::int32_t n = 0; n < slot.count; ++n) {
      const auto adapter = static_cast<std::size_t>(slot.uses[n].adapter);
      const float* a = values.data() + adapter * room;
      const auto rank = static_cast<std::uint32_t>(held[adapter].rank);
      const float* b = a + std::uint64_t{size.rank} * size.in + std::uint64_t{row} * rank;
      const double factor = static_cast<double>(slot.uses[n].strength) * held[adapter].scale;
      for (std::uint32_t r = 0; r < rank; ++r) {
        for (std::uint32_t c = 0; c < size.in; ++c) {
          const bool token = what == reads::tokens;
          if (token && c != static_cast<std::uint32_t>(steps[column].token)) continue;
          const double in = token ? 1.0 : x[std::size_t{column} * size.in + c];
          const double term = factor * b[r] * a[std::uint64_t{r} * size.in + c] * in;
          sum += term;
          magnitude += std::fabs(term);
        }
      }
    }
    return {sum, magnitude * (size.in / 32 + size.rank + 16) * 0x1p-24};
  }
};

constexpr shape shapes[] = {{64, 48, 8}, {96, 300, 16}, {130, 64, 3}, {1040, 33, 64}, {7, 5, 1}};

}  // namespace

BOOST_AUTO_TEST_SUITE(lora)

BOOST_AUTO_TEST_CASE(agrees_with_f64_and_leaves_other_columns_alone) {
  for (const shape& s : shapes) {
    const problem p(s);
    for (const auto what : {problem::reads::halves, problem::reads::floats, problem::reads::tokens}) {
      const std::vector<float> got = p.run(what, 0, problem::columns);
      for (std::uint32_t column = 0; column < problem::columns; ++column) {
        for (std::uint32_t row = 0; row < s.out; ++row) {
          const auto [want, bound] = p.want(what, column, row);
          const std::size_t at = std::size_t{column} * s.out + row;
          if (p.steps[column].slot == 1) BOOST_TEST_REQUIRE(got[at] == p.y[at]);
          BOOST_TEST_REQUIRE(std::fabs(got[at] - want) <= bound, got[at] << ", not " << want);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_column_has_the_same_bits_alone) {
  for (const shape& s : shapes) {
    const problem p(s);
    for (const auto what : {problem::reads::halves, problem::reads::floats, problem::reads::tokens}) {
      const std::vector<float> all = p.run(what, 0, problem::columns);
      for (std::uint32_t column = 0; column < problem::columns; ++column) {
        const std::vector<float> one = p.run(what, column, 1);
        for (std::uint32_t row = 0; row < s.out; ++row) {
          const std::size_t at = std::size_t{column} * s.out + row;
          BOOST_TEST_REQUIRE(one[at] == all[at]);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
  BOOST_TEST(kernels::launch_lora({}, nullptr) != 0);
  BOOST_TEST(kernels::launch_lora_activate({}, nullptr) != 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
