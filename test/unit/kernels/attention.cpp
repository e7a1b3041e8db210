// Attention over the f16 cache against a plain f64 softmax.
#include "kernels/attention.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/host/half.hpp"
#include "kernels/host/thread_pool.hpp"
#include "test/unit/kernels/reference.hpp"

namespace {

using namespace orcd;
using kernels::attention_column;

struct scene {
  std::uint32_t heads = 4, kv_heads = 2, key_width = 32, value_width = 32, capacity = 700, window = 0;
  float scale = 0.18F;
  std::vector<float> sinks;
  std::uint32_t tokens = 600;
  std::vector<float> q, k, v;

  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    q = test::random_floats(std::size_t{tokens} * heads * key_width, random);
    k = test::random_floats(std::size_t{tokens} * kv_heads * key_width, random);
    v = test::random_floats(std::size_t{tokens} * kv_heads * value_width, random);
    for (float& x : q) x *= 6.0F;  // scores that spread over several units
  }

  /// All tokens, `step` at a time, as a prompt is prefilled.
  [[nodiscard]] std::vector<float> run(std::uint32_t step, kernels::host::thread_pool& pool) const {
    // NaN in the cache: reading a position that was not written would show.
    std::vector<std::uint16_t> keys(std::size_t{kv_heads} * capacity * key_width, 0x7e00U);
    std::vector<std::uint16_t> values(std::size_t{kv_heads} * capacity * value_width, 0x7e00U);
    std::vector<float> out(std::size_t{tokens} * heads * value_width,
                           std::numeric_limits<float>::quiet_NaN());
    // K and V of a token lie in one row, as the forward pass has them.
    const std::size_t stride = std::size_t{kv_heads} * (key_width + value_width);
    for (std::uint32_t first = 0; first < tokens; first += step) {
      const std::uint32_t count = std::min(step, tokens - first);
      std::vector<float> rows(count * stride);
      std::vector<attention_column> columns(count);
      for (std::uint32_t c = 0; c < count; ++c) {
        const std::size_t kw = std::size_t{kv_heads} * key_width, vw = std::size_t{kv_heads} * value_width;
        std::copy_n(&k[(first + c) * kw], kw, &rows[c * stride]);
        std::copy_n(&v[(first + c) * vw], vw, &rows[c * stride + kw]);
        columns[c] = {keys.data(), values.data(), first + c};
      }
      kernels::host::store_kv({.k = rows.data(),
                               .v = rows.data() + std::size_t{kv_heads} * key_width,
                               .stride = stride,
                               .columns = columns.data(),
                               .column_count = count,
                               .kv_heads = kv_heads,
                               .key_width = key_width,
                               .value_width = value_width,
                               .capacity = capacity},
                              pool);
      kernels::host::attention({.q = &q[std::size_t{first} * heads * key_width],
                                .out = &out[std::size_t{first} * heads * value_width],
                                .q_stride = std::size_t{heads} * key_width,
                                .columns = columns.data(),
                                .sinks = sinks.empty() ? nullptr : sinks.data(),
                                .column_count = count,
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .key_width = key_width,
                                .value_width = value_width,
                                .capacity = capacity,
                                .window = window,
                                .scale = scale},
                               pool);
    }
    return out;
  }

  [[nodiscard]] double cached(const std::vector<float>& from, std::size_t index) const {
    return test::half_value(kernels::host::float_to_half(from[index]));
  }

  /// Head h of token t in f64.
  [[nodiscard]] std::vector<double> want(std::uint32_t t, std::uint32_t h) const {
    const std::uint32_t g = h / (heads / kv_heads);
    const std::uint32_t begin = window != 0 && t + 1 > window ? t + 1 - window : 0;
    std::vector<double> weights, result(value_width, 0.0);
    double largest = sinks.empty() ? -HUGE_VAL : sinks[h];
    for (std::uint32_t p = begin; p <= t; ++p) {
      double score = 0.0;
      for (std::uint32_t i = 0; i < key_width; ++i) {
        score += double{q[(std::size_t{t} * heads + h) * key_width + i]} *
                 cached(k, (std::size_t{p} * kv_heads + g) * key_width + i);
      }
      weights.push_back(score * double{scale});
      largest = std::max(largest, weights.back());
    }
    double sum = sinks.empty() ? 0.0 : std::exp(sinks[h] - largest);
    for (double& w : weights) sum += w = std::exp(w - largest);
    for (std::uint32_t p = begin; p <= t; ++p) {
      for (std::uint32_t i = 0; i < value_width; ++i) {
        result[i] += weights[p - begin] / sum * cached(v, (std::size_t{p} * kv_heads + g) * value_width + i);
      }
    }
    return result;
  }

  /// Values are at most 1 and weights sum to 1; a score's error times 1 is a weight's relative error:
  /// |q.k| sums key_width products of at most 6, so scores err by about 6 * key_width * scale * 2^-22.
  void check(const std::vector<float>& out, std::uint32_t t) const {
    const double bound = 4.0 * 6.0 * key_width * double{scale} * 0x1p-22;
    for (std::uint32_t h = 0; h < heads; ++h) {
      const std::vector<double> expected = want(t, h);
      for (std::uint32_t i = 0; i < value_width; ++i) {
        const float got = out[(std::size_t{t} * heads + h) * value_width + i];
        BOOST_TEST_REQUIRE(std::fabs(got - expected[i]) <= bound, "token " << t << " head " << h << " value "
                                                                           << i << ": " << got << ", not "
                                                                           << expected[i]);
      }
    }
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

constexpr std::uint32_t telling_tokens[] = {0, 1, 7, 15, 16, 254, 255, 256, 257, 511, 512, 599};

}  // namespace

BOOST_AUTO_TEST_SUITE(attention)

BOOST_AUTO_TEST_CASE(agrees_with_f64_across_chunk_edges) {
  kernels::host::thread_pool pool(2);
  scene s;
  s.fill(1);
  test::on_every_level([&](kernels::host::isa_level) {
    const std::vector<float> out = s.run(16, pool);
    for (const std::uint32_t t : telling_tokens) s.check(out, t);
  });
}

BOOST_AUTO_TEST_CASE(window_counts_the_tokens_own_position) {
  kernels::host::thread_pool pool(2);
  for (const std::uint32_t window : {1U, 2U, 8U, 255U, 256U, 257U}) {
    scene s;
    s.window = window;
    s.tokens = 530;
    s.fill(2);
    const std::vector<float> out = s.run(64, pool);
    for (const std::uint32_t t : {0U, 1U, 6U, 7U, 8U, 9U, 255U, 256U, 257U, 263U, 511U, 512U, 519U, 529U}) {
      s.check(out, t);
    }
  }
}

BOOST_AUTO_TEST_CASE(window_of_one_returns_the_value_itself) {
  kernels::host::thread_pool pool(1);
  scene s;
  s.window = 1;
  s.tokens = 3;
  s.fill(3);
  const std::vector<float> out = s.run(3, pool);
  for (std::uint32_t i = 0; i < s.value_width; ++i) {
    BOOST_TEST(double{out[2 * 4 * 32 + i]} == s.cached(s.v, 2 * 2 * 32 + i));
  }
}

BOOST_AUTO_TEST_CASE(sinks_take_weight_and_give_no_value) {
  kernels::host::thread_pool pool(2);
  scene s;
  s.sinks = {0.0F, 5.0F, -40.0F, 90.0F};  // the last takes all weight
  s.window = 130;
  s.fill(4);
  const std::vector<float> out = s.run(32, pool);
  for (const std::uint32_t t : telling_tokens) s.check(out, t);
  BOOST_TEST(std::fabs(out[3 * 32]) < 1e-30F);
}

BOOST_AUTO_TEST_CASE(odd_widths_and_many_heads_per_kv_head) {
  kernels::host::thread_pool pool(2);
  test::on_every_level([&](kernels::host::isa_level) {
    scene s;
    s.heads = 22;  // 11 per kv head: more than are taken at once
    s.key_width = 42;
    s.value_width = 26;
    s.tokens = 40;
    s.fill(5);
    const std::vector<float> out = s.run(7, pool);
    for (std::uint32_t t = 0; t < s.tokens; ++t) s.check(out, t);
  });
}

BOOST_AUTO_TEST_CASE(same_bits_for_every_step_size_thread_count_and_level) {
  for (const bool with_sinks : {false, true}) {
    scene s;
    s.tokens = 560;
    if (with_sinks) {
      s.sinks = {0.1F, 0.2F, 0.3F, 0.4F};
      s.window = 300;
    }
    s.fill(6);
    std::vector<float> first;
    test::on_every_level([&](kernels::host::isa_level level) {
      for (const std::uint32_t step : {1U, 3U, 16U, 256U, 560U}) {
        kernels::host::thread_pool pool(step % 3 + 1);
        const std::vector<float> out = s.run(step, pool);
        if (first.empty()) first = out;
        BOOST_TEST_REQUIRE(same_bits(first, out), "step " << step << " on " << isa_name(level));
      }
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
