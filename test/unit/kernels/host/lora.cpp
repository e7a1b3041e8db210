// What LoRA adapters add to products against f64, and the same bits for one column or many, on every level,
// for every thread count; rows of other columns keep their bits.
#include "kernels/host/lora.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/host/thread_pool.hpp"
#include "test/unit/kernels/host/reference.hpp"

namespace {

using namespace orcd;
using kernels::lora_group;

struct shape {
  std::uint32_t in, out, rank;
};

/// Three adapters of different ranks over seven columns; the last column has none.
struct problem {
  static constexpr std::uint32_t columns = 7;
  static constexpr std::array<std::uint32_t, 6> x_rows{4, 0, 2, 5, 1, 3};
  static constexpr std::array<std::uint32_t, 6> y_rows{1, 5, 0, 2, 4, 3};

  shape size;
  std::vector<float> a, b, x, y;
  std::vector<std::int32_t> tokens;
  std::vector<lora_group> groups;

  explicit problem(shape s) : size(s) {
    std::mt19937_64 random(s.in * 131 + s.out * 17 + s.rank);
    a = test::random_floats(std::size_t{3} * s.rank * s.in, random);
    b = test::random_floats(std::size_t{3} * s.rank * s.out, random);
    x = test::random_floats(std::size_t{columns} * s.in, random);
    y = test::random_floats(std::size_t{columns} * s.out, random);
    for (std::uint32_t c = 0; c < columns; ++c) tokens.push_back(static_cast<std::int32_t>(c * 31 % s.in));
    const std::uint32_t firsts[] = {0, 3, 4, 6};
    for (std::uint32_t g = 0; g < 3; ++g) {
      groups.push_back({a.data() + std::size_t{g} * s.rank * s.in, b.data() + std::size_t{g} * s.rank * s.out,
                        s.rank > g ? s.rank - g : 1, 0.75F + 0.5F * static_cast<float>(g), firsts[g],
                        firsts[g + 1] - firsts[g]});
    }
  }

  [[nodiscard]] std::vector<float> run(std::span<const lora_group> some, bool embed, unsigned threads) const {
    kernels::host::thread_pool pool(threads);
    std::vector<float> out = y;
    std::vector<float> inner(std::size_t{columns} * (size.rank + 1));
    std::array<kernels::matmul_args, 3> scratch;
    const kernels::lora_args args{.groups = some,
                                  .x = embed ? nullptr : x.data(),
                                  .tokens = embed ? tokens.data() : nullptr,
                                  .y = out.data(),
                                  .x_stride = size.in,
                                  .y_stride = size.out,
                                  .x_rows = x_rows.data(),
                                  .y_rows = y_rows.data(),
                                  .in = size.in,
                                  .out = size.out,
                                  .inner = inner.data(),
                                  .inner_stride = size.rank + 1U};
    embed ? kernels::host::lora_rows(args, scratch, pool) : kernels::host::lora(args, scratch, pool);
    return out;
  }

  /// The r-th value between A and B of a column.
  [[nodiscard]] test::reference_value between(const lora_group& g, std::uint32_t x_row, std::uint32_t r,
                                              bool embed) const {
    const float* row = g.a + std::size_t{r} * size.in;
    const auto token = static_cast<std::size_t>(tokens[x_row]);
    if (embed) return {row[token], std::fabs(row[token])};
    test::reference_value sum;
    for (std::uint32_t c = 0; c < size.in; ++c) {
      const double term = static_cast<double>(row[c]) * x[std::size_t{x_row} * size.in + c];
      sum.value += term;
      sum.magnitude += std::fabs(term);
    }
    return sum;
  }

  /// Sums round at most in/16 + 8 and rank/16 + 8 times, the factor and the last addition once each.
  void check(const std::vector<float>& got, bool embed) const {
    std::vector<bool> changed(columns);
    for (const lora_group& g : groups) {
      for (std::uint32_t i = g.first; i < g.first + g.count; ++i) {
        changed[y_rows[i]] = true;
        for (std::uint32_t o = 0; o < size.out; ++o) check_value(got, g, i, o, embed);
      }
    }
    for (std::uint32_t c = 0; c < columns; ++c) {
      if (changed[c]) continue;
      BOOST_TEST(std::memcmp(&got[c * size.out], &y[c * size.out], size.out * sizeof(float)) == 0);
    }
  }

  void check_value(const std::vector<float>& got, const lora_group& g, std::uint32_t i, std::uint32_t o,
                   bool embed) const {
    const std::size_t at = std::size_t{y_rows[i]} * size.out + o;
    double sum = 0.0, magnitude = 0.0;
    for (std::uint32_t r = 0; r < g.rank; ++r) {
      const test::reference_value t = between(g, x_rows[i], r, embed);
      const double weight = g.b[std::size_t{o} * g.rank + r];
      sum += weight * t.value;
      magnitude += std::fabs(weight) * t.magnitude;
    }
    const double want = y[at] + g.factor * sum;
    const double bound =
        (g.factor * magnitude * (size.in / 16 + size.rank / 16 + 20) + std::fabs(y[at])) * 0x1p-24;
    BOOST_TEST_REQUIRE(std::fabs(got[at] - want) <= bound, "column " << i << " row " << o << ": " << got[at]
                                                                     << ", not " << want << " within "
                                                                     << bound);
  }
};

constexpr shape shapes[] = {{7, 5, 1},    {64, 48, 8},    {96, 130, 16}, {130, 64, 3},
                            {256, 40, 5}, {1040, 33, 64}, {513, 17, 33}};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// Each column by itself, one after the other.
std::vector<float> one_by_one(const problem& p, bool embed) {
  std::vector<float> out = p.y;
  for (const lora_group& g : p.groups) {
    for (std::uint32_t i = g.first; i < g.first + g.count; ++i) {
      lora_group alone = g;
      alone.first = i;
      alone.count = 1;
      const std::vector<float> got = p.run({&alone, 1}, embed, 1);
      const auto at = static_cast<std::ptrdiff_t>(problem::y_rows[i] * p.size.out);
      std::copy_n(got.begin() + at, p.size.out, out.begin() + at);
    }
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lora)

BOOST_AUTO_TEST_CASE(agrees_with_f64_on_every_level) {
  for (const shape& s : shapes) {
    const problem p(s);
    for (const bool embed : {false, true}) {
      const std::vector<float> first = p.run(p.groups, embed, 1);
      test::on_every_level([&](kernels::host::isa_level level) {
        const std::vector<float> got = p.run(p.groups, embed, 2);
        p.check(got, embed);
        BOOST_TEST(same_bits(got, first), kernels::host::isa_name(level) << ", " << s.in << " x " << s.out);
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(a_column_has_the_same_bits_alone) {
  for (const shape& s : shapes) {
    const problem p(s);
    for (const bool embed : {false, true}) {
      for (const unsigned threads : {1U, 3U}) {
        BOOST_TEST(same_bits(p.run(p.groups, embed, threads), one_by_one(p, embed)));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
