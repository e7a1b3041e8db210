// Attention over the cache, of every type, against a plain f64 softmax.
#include "kernels/host/attention.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/host/thread_pool.hpp"
#include "test/support/kv_reference.hpp"
#include "test/unit/kernels/host/reference.hpp"

namespace {

using namespace orcd;
using kernels::attention_column;

struct scene {
  std::uint32_t heads = 4, kv_heads = 2, key_width = 32, value_width = 32, window = 0;
  float scale = 0.18F, softcap = 0.0F;
  engine::kv_types types{};
  std::vector<float> sinks;
  std::uint32_t tokens = 600;
  std::vector<float> q, k, v;
  std::vector<double> cached_k, cached_v;

  void fill(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    q = test::random_floats(std::size_t{tokens} * heads * key_width, random);
    k = test::random_floats(std::size_t{tokens} * kv_heads * key_width, random);
    v = test::random_floats(std::size_t{tokens} * kv_heads * value_width, random);
    for (float& x : q) x *= 6.0F;  // scores that spread over several units
    cache();
  }
  /// What the cache makes of k and v.
  void cache() {
    const auto heads_of = [](engine::kv_type type, const std::vector<float>& from, std::uint32_t width) {
      std::vector<double> out;
      for (std::size_t at = 0; at < from.size(); at += width) {
        const auto row = test::cached_row(type, std::span(from).subspan(at, width));
        out.insert(out.end(), row.begin(), row.end());
      }
      return out;
    };
    cached_k = heads_of(types.keys, k, key_width);
    cached_v = heads_of(types.values, v, value_width);
  }

  /// All tokens, `step` at a time, as a prompt is prefilled.
  [[nodiscard]] std::vector<float> run(std::uint32_t step, kernels::host::thread_pool& pool) const {
    // All bits set are NaN in every type: reading a position that was not written would show.
    const std::uint32_t pages = (tokens + engine::kv_page_positions - 1) / engine::kv_page_positions;
    const std::size_t rows_each = std::size_t{kv_heads} * pages * engine::kv_page_positions;
    std::vector<std::int32_t> table(pages);  // the last page first: no page is where its position would be
    for (std::uint32_t i = 0; i < pages; ++i) table[i] = static_cast<std::int32_t>(pages - 1 - i);
    std::vector<std::byte> keys(rows_each * engine::kv_row_bytes(types.keys, key_width), std::byte{0xff});
    std::vector<std::byte> values(rows_each * engine::kv_row_bytes(types.values, value_width),
                                  std::byte{0xff});
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
        columns[c] = {table.data(), first + c};
      }
      kernels::host::store_kv({.k = rows.data(),
                               .v = rows.data() + std::size_t{kv_heads} * key_width,
                               .stride = stride,
                               .cache = {keys.data(), values.data()},
                               .columns = columns.data(),
                               .column_count = count,
                               .kv_heads = kv_heads,
                               .key_width = key_width,
                               .value_width = value_width,
                               .types = types},
                              pool);
      kernels::host::attention({.q = &q[std::size_t{first} * heads * key_width],
                                .out = &out[std::size_t{first} * heads * value_width],
                                .q_stride = std::size_t{heads} * key_width,
                                .cache = {keys.data(), values.data()},
                                .columns = columns.data(),
                                .sinks = sinks.empty() ? nullptr : sinks.data(),
                                .column_count = count,
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .key_width = key_width,
                                .value_width = value_width,
                                .window = window,
                                .softcap = softcap,
                                .scale = scale,
                                .types = types},
                               pool);
    }
    return out;
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
                 cached_k[(std::size_t{p} * kv_heads + g) * key_width + i];
      }
      const double scaled = score * double{scale};
      weights.push_back(softcap > 0.0F ? softcap * std::tanh(scaled / softcap) : scaled);
      largest = std::max(largest, weights.back());
    }
    double sum = sinks.empty() ? 0.0 : std::exp(sinks[h] - largest);
    for (double& w : weights) sum += w = std::exp(w - largest);
    for (std::uint32_t p = begin; p <= t; ++p) {
      for (std::uint32_t i = 0; i < value_width; ++i) {
        result[i] += weights[p - begin] / sum * cached_v[(std::size_t{p} * kv_heads + g) * value_width + i];
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

/// Rows of very different sizes: subnormal, tiny, ordinary, beyond f16; some all zero, some one-sided.
void spread_magnitudes(std::vector<float>& v) {
  constexpr float sizes[] = {1e-42F, 1e-9F, 2e-7F, 1e-5F, 1e-3F, 0.1F, 1.0F, 300.0F, 6e4F, 7e4F, 1e30F, 0.0F};
  for (std::size_t i = 0; i < v.size(); ++i) v[i] *= sizes[i / 37 % std::size(sizes)];
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

BOOST_AUTO_TEST_CASE(scores_are_capped_and_masked_positions_stay_masked) {
  kernels::host::thread_pool pool(2);
  for (const float softcap : {0.05F, 0.5F, 50.0F}) {
    scene s;
    s.softcap = softcap;
    s.window = 300;
    s.fill(3);
    test::on_every_level([&](kernels::host::isa_level) {
      const std::vector<float> out = s.run(16, pool);
      for (const std::uint32_t t : telling_tokens) s.check(out, t);
    });
  }
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

// One position's weight is exactly 1, so that the result is the cached row, bit for bit.
BOOST_AUTO_TEST_CASE(window_of_one_returns_the_cached_value_itself) {
  kernels::host::thread_pool pool(1);
  test::on_every_level([&](kernels::host::isa_level level) {
    for (const engine::kv_type type : test::every_kv_type) {
      for (const std::uint32_t width : {16U, 26U, 32U, 80U, 128U}) {
        scene s;
        s.types = {type, type};
        s.window = 1;
        s.tokens = 12;
        s.value_width = width;
        s.fill(3);
        spread_magnitudes(s.v);
        s.cache();
        const std::vector<float> out = s.run(3, pool);
        for (std::size_t i = 0; i < out.size(); ++i) {
          const std::size_t head = i / width / (s.heads / s.kv_heads);
          BOOST_TEST_REQUIRE(double{out[i]} == s.cached_v[head * width + i % width],
                             engine::to_string(type)
                                 << " width " << width << " value " << i << " of " << isa_name(level));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(every_pair_of_types_agrees_with_f64) {
  kernels::host::thread_pool pool(2);
  for (const engine::kv_type keys : test::every_kv_type) {
    for (const engine::kv_type values : test::every_kv_type) {
      scene s;
      s.types = {keys, values};
      s.key_width = s.value_width = 42;
      s.tokens = 300;
      s.window = 270;
      s.sinks = {0.1F, 0.2F, 0.3F, 0.4F};
      s.fill(7);
      const std::vector<float> out = s.run(16, pool);
      for (const std::uint32_t t : {0U, 1U, 255U, 256U, 257U, 299U}) s.check(out, t);
      // Against K and V that were never rounded, for the record and as a bound: values below 1 err by at
      // most half a step of their type, weights by the error of a score.
      scene exact = s;
      exact.cached_k.assign(s.k.begin(), s.k.end());
      exact.cached_v.assign(s.v.begin(), s.v.end());
      double difference = 0, norm = 0;
      for (std::uint32_t h = 0; h < s.heads; ++h) {
        const auto want = exact.want(299, h);
        for (std::uint32_t i = 0; i < s.value_width; ++i) {
          difference += std::pow(out[(299 * s.heads + h) * s.value_width + i] - want[i], 2);
          norm += want[i] * want[i];
        }
      }
      const auto step = [](engine::kv_type type) {
        switch (type) {
          case engine::kv_type::f16: return 0x1p-11;
          case engine::kv_type::bf16: return 0x1p-8;
          case engine::kv_type::q8_0: return 1.0 / 127;
          case engine::kv_type::f32: break;
        }
        return 0x1p-24;
      };
      const double error = std::sqrt(difference / norm);
      std::printf("K %s, V %s: relative error %.1e against unrounded K and V\n", engine::to_string(keys),
                  engine::to_string(values), error);
      // |q| is at most 6, a score sums 42 independent errors.
      BOOST_TEST(error < 6 * std::sqrt(42.0) * double{s.scale} * step(keys) + 4 * step(values));
    }
  }
}

BOOST_AUTO_TEST_CASE(no_finite_value_is_stored_as_infinity) {
  kernels::host::thread_pool pool(1);
  for (const engine::kv_type type : test::every_kv_type) {
    scene s;
    s.types = {type, type};
    s.window = 1;
    s.tokens = 1;
    s.fill(8);
    for (std::size_t i = 0; i < s.v.size(); ++i) s.v[i] = i % 2 == 0 ? 3.4028235e38F : -70'000.0F;
    s.cache();
    const std::vector<float> out = s.run(1, pool);
    BOOST_TEST(std::isfinite(out[0]));
    BOOST_TEST(double{out[0]} == s.cached_v[0]);
    BOOST_TEST(double{out[1]} == s.cached_v[1]);
    const double most = type == engine::kv_type::f16    ? 65'504.0
                        : type == engine::kv_type::bf16 ? 0x1.FEp127
                        : type == engine::kv_type::f32  ? 0x1.FFFFFEp127
                                                        : 65'472.0;  // 127 * 515.5 in f16
    BOOST_TEST(double{out[0]} == most, engine::to_string(type) << ": " << out[0]);
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
  using engine::kv_type;
  for (const engine::kv_types types : {engine::kv_types{}, engine::kv_types{kv_type::q8_0, kv_type::bf16},
                                       engine::kv_types{kv_type::bf16, kv_type::q8_0}}) {
    scene s;
    s.tokens = 560;
    s.types = types;
    if (types.values == kv_type::q8_0) {
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
