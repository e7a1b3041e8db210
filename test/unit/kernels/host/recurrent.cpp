// Recurrent layers against double precision; and with the same bits at every x86 level, token by token, in
// any cut, and after rows that were dropped.
#include "kernels/host/recurrent.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "kernels/host/kernel_table.hpp"
#include "kernels/host/thread_pool.hpp"
#include "test/unit/kernels/host/reference.hpp"

using namespace orcd;
using namespace orcd::kernels;

namespace {

struct shape {
  std::uint32_t key_heads, value_heads, key_length, value_length;
  bool delta_net, in_turn;
};

constexpr shape delta_shapes[] = {{1, 1, 16, 16, true, false},
                                  {2, 4, 32, 32, true, true},
                                  {2, 4, 32, 32, true, false},
                                  {2, 8, 20, 20, true, true}};
constexpr shape mamba_shapes[] = {{1, 4, 32, 16, false, false}, {2, 4, 48, 20, false, false}};

/// What tokens bring: queries, keys and values in rows, one behind the other.
struct tokens {
  shape of;
  std::uint32_t count;
  std::size_t stride;
  std::vector<float> rows, factors, decays, skip;

  tokens(const shape& s, std::uint32_t n, unsigned seed)
      : of(s),
        count(n),
        stride(2 * std::size_t{s.key_heads} * s.key_length + s.value_heads * s.value_length) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto unit = [&](float* x, float length) {
      double sum = 1e-6;
      for (std::uint32_t i = 0; i < s.key_length; ++i) sum += double{x[i]} * x[i];
      for (std::uint32_t i = 0; i < s.key_length; ++i) x[i] *= static_cast<float>(length / std::sqrt(sum));
    };
    rows.resize(stride * n);
    // Keys of models are much alike.
    std::vector<float> base(s.key_length);
    for (float& v : base) v = normal(random);
    for (std::uint32_t t = 0; t < n; ++t) {
      float* const row = rows.data() + t * stride;
      for (std::size_t i = 0; i < stride; ++i)
        row[i] = normal(random) + (i < 2 * keys() ? base[i % s.key_length] : 0.0F);
      for (std::uint32_t h = 0; s.delta_net && h < 2 * s.key_heads; ++h)
        unit(row + h * s.key_length, h < s.key_heads ? 1.0F / std::sqrt(float(s.key_length)) : 1.0F);
      for (std::uint32_t h = 0; h < s.value_heads; ++h) {
        factors.push_back(1.0F / (1.0F + std::exp(-normal(random))));
        decays.push_back(-0.3F * std::fabs(normal(random)));
      }
    }
    if (!s.delta_net)
      for (std::uint32_t h = 0; h < s.value_heads; ++h) skip.push_back(normal(random));
  }
  [[nodiscard]] std::size_t keys() const { return std::size_t{of.key_heads} * of.key_length; }
  [[nodiscard]] std::size_t values() const { return std::size_t{of.value_heads} * of.value_length; }
  [[nodiscard]] std::uint32_t key_head(std::uint32_t h) const {
    return of.in_turn ? h % of.key_heads : h / (of.value_heads / of.key_heads);
  }
};

/// A sequence and what is kept of it.
struct sequence {
  static constexpr std::uint32_t states = 3, rows = states * recurrent_chunk;
  const tokens& all;
  std::vector<float> kept_states, keys, updates, decays;

  explicit sequence(const tokens& t)
      : all(t),
        kept_states(states * t.values() * t.of.key_length),
        keys(rows * t.keys()),
        updates(rows * t.values()),
        decays(std::size_t{rows} * t.of.value_heads) {}

  /// What `given`, or the sequence's own tokens [begin, end), give.
  std::vector<float> run(std::uint32_t begin, std::uint32_t end, const tokens* given = nullptr) {
    const tokens& t = given != nullptr ? *given : all;
    std::vector<float> out((end - begin) * t.values());
    recurrent_run one{.count = end - begin,
                      .position = begin,
                      .states = kept_states.data(),
                      .keys = keys.data(),
                      .updates = updates.data(),
                      .decays = decays.data()};
    const float* const first = t.rows.data() + begin * t.stride;
    host::thread_pool pool(1);
    host::recurrent_scan({.runs = &one,
                          .queries = first,
                          .keys = first + t.keys(),
                          .values = first + 2 * t.keys(),
                          .stride = t.stride,
                          .factors = t.factors.data() + std::size_t{begin} * t.of.value_heads,
                          .decays = t.decays.data() + std::size_t{begin} * t.of.value_heads,
                          .skip = t.skip.empty() ? nullptr : t.skip.data(),
                          .out = out.data(),
                          .out_stride = t.values(),
                          .run_count = 1,
                          .key_heads = t.of.key_heads,
                          .value_heads = t.of.value_heads,
                          .key_length = t.of.key_length,
                          .value_length = t.of.value_length,
                          .states = states,
                          .rows = rows,
                          .in_turn = t.of.in_turn,
                          .delta_net = t.of.delta_net},
                         pool);
    return out;
  }
  [[nodiscard]] std::span<const float> state(std::uint32_t position) const {
    const std::size_t width = all.values() * all.of.key_length;
    return std::span(kept_states).subspan(position / recurrent_chunk % states * width, width);
  }
};

/// The recurrence itself, one token after the other; `state` gets the last one.
std::vector<double> reference(const tokens& t, std::vector<double>& state) {
  std::vector<double> out(t.count * t.values());
  state.assign(t.values() * t.of.key_length, 0.0);
  for (std::uint32_t n = 0; n < t.count; ++n) {
    const float* const row = t.rows.data() + n * t.stride;
    for (std::uint32_t h = 0; h < t.of.value_heads; ++h) {
      const float* const q = row + t.key_head(h) * t.of.key_length;
      const float* const k = q + t.keys();
      const double shrunk = std::exp(double{t.decays[n * t.of.value_heads + h]});
      const double factor = t.factors[n * t.of.value_heads + h];
      for (std::uint32_t v = 0; v < t.of.value_length; ++v) {
        const std::size_t at = std::size_t{h} * t.of.value_length + v;
        double* const s = state.data() + at * t.of.key_length;
        const double value = row[2 * t.keys() + at];
        double seen = 0.0;
        for (std::uint32_t i = 0; i < t.of.key_length; ++i) seen += (s[i] *= shrunk) * k[i];
        const double u = factor * (value - (t.of.delta_net ? seen : 0.0));
        double result = t.skip.empty() ? 0.0 : t.skip[h] * value;
        for (std::uint32_t i = 0; i < t.of.key_length; ++i) result += (s[i] += u * k[i]) * q[i];
        out[n * t.values() + at] = result;
      }
    }
  }
  return out;
}

template <class A, class B>
double relative_error(const A& ours, const B& wanted) {
  double off = 0.0, size = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    off += (double{ours[i]} - wanted[i]) * (double{ours[i]} - wanted[i]);
    size += double{wanted[i]} * wanted[i];
  }
  return std::sqrt(off / size);
}

template <class Check>
void each_shape(Check check) {
  for (const shape& s : delta_shapes) check(s);
  for (const shape& s : mamba_shapes) check(s);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(recurrent_kernels)

BOOST_AUTO_TEST_CASE(a_chunked_state_is_the_recurrence_of_double_precision) {
  each_shape([](const shape& s) {
    const tokens t(s, 203, 1);
    std::vector<double> state;
    const std::vector<double> wanted = reference(t, state);
    std::vector<float> first;
    test::on_every_level([&](host::isa_level) {
      sequence one(t);
      const std::vector<float> out = one.run(0, t.count);
      BOOST_TEST(relative_error(out, wanted) < 2e-6);
      if (first.empty()) first = out;
      BOOST_TEST((out == first));
    });
  });
}

BOOST_AUTO_TEST_CASE(no_cut_changes_a_bit) {
  each_shape([](const shape& s) {
    const tokens t(s, 150, 2);
    sequence whole(t);
    const std::vector<float> wanted = whole.run(0, t.count);
    for (const std::uint32_t most : {1U, 3U, 8U, 9U, 40U}) {
      std::mt19937 random(most);
      sequence cut(t);
      std::vector<float> out;
      for (std::uint32_t begin = 0; begin < t.count;) {
        const std::uint32_t end = std::min<std::uint32_t>(t.count, begin + 1 + random() % most);
        const std::vector<float> part = cut.run(begin, end);
        out.insert(out.end(), part.begin(), part.end());
        begin = end;
      }
      BOOST_TEST((out == wanted), "cuts below " << most);
      BOOST_TEST(std::ranges::equal(cut.state(144), whole.state(144)));
    }
  });
}

// At each offset of a chunk, with every number of them.
BOOST_AUTO_TEST_CASE(rows_that_are_dropped_leave_nothing) {
  each_shape([](const shape& s) {
    const tokens t(s, 80, 3);
    const tokens wrong(s, 80, 4);
    sequence whole(t);
    const std::vector<float> wanted = whole.run(0, t.count);
    for (std::uint32_t at = 24; at < 32; ++at) {
      for (std::uint32_t drafts = 1; drafts <= 15; ++drafts) {
        for (const std::uint32_t right : {0U, drafts / 2, drafts - 1}) {
          sequence one(t);
          one.run(0, at);
          // The first token and the drafts that are right are the sequence's own.
          tokens mixed = wrong;
          std::copy_n(t.rows.begin(), (at + 1 + right) * t.stride, mixed.rows.begin());
          std::copy_n(t.factors.begin(), (at + 1 + right) * s.value_heads, mixed.factors.begin());
          std::copy_n(t.decays.begin(), (at + 1 + right) * s.value_heads, mixed.decays.begin());
          mixed.skip = t.skip;
          one.run(at, at + 1 + drafts, &mixed);
          const std::vector<float> out = one.run(at + 1 + right, t.count);
          const auto rest = std::span(wanted).subspan((at + 1 + right) * t.values());
          BOOST_REQUIRE(std::ranges::equal(out, rest));
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(what_is_infinite_reaches_no_earlier_row) {
  each_shape([](const shape& s) {
    const tokens t(s, 40, 5);
    for (const float bad :
         {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      for (std::uint32_t at = 16; at < 24; ++at) {
        tokens spoilt = t;
        std::fill_n(spoilt.rows.begin() + static_cast<std::ptrdiff_t>(at * t.stride), t.stride, bad);
        sequence good(t), one(spoilt);
        const std::vector<float> wanted = good.run(0, at);
        const std::vector<float> out = one.run(0, t.count);
        BOOST_TEST(std::ranges::equal(std::span(out).first(wanted.size()), wanted));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_state_does_not_drift) {
  for (const float slow : {1.0F, 0.02F}) {
    tokens t({1, 1, 32, 32, true, false}, 32'768, 6);
    for (float& g : t.decays) g *= slow;
    std::vector<double> wanted;
    static_cast<void>(reference(t, wanted));
    sequence one(t);
    one.run(0, t.count);
    const double off = relative_error(one.state(t.count), wanted);
    BOOST_TEST_MESSAGE("after 32,768 tokens the state is " << off << " off");
    BOOST_TEST(off < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(gates_are_those_of_double_precision) {
  constexpr std::uint32_t columns = 40, key_heads = 2, value_heads = 6, width = 20;
  const std::size_t keys = key_heads * width;
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0F, 4.0F);
  std::vector<float> rows(columns * (2 * keys + 2 * value_heads)), rate(value_heads), bias(value_heads);
  for (float& v : rows) v = normal(random);
  for (std::uint32_t h = 0; h < value_heads; ++h) {
    rate[h] = -std::exp(normal(random) / 4);
    bias[h] = normal(random);
  }
  const std::size_t stride = 2 * keys + 2 * value_heads;
  for (const bool delta_net : {true, false}) {
    for (const std::uint32_t joint : {0U, 3U}) {
      std::vector<float> first;
      test::on_every_level([&](host::isa_level) {
        std::vector<float> given = rows, factors(columns * value_heads), decays(columns * value_heads);
        host::thread_pool pool(1);
        const float* const gates = given.data() + 2 * keys;
        host::recurrent_gates({.queries = given.data(),
                               .keys = given.data() + keys,
                               .beta = gates,
                               .decay = joint == 0 ? gates + value_heads : gates,
                               .rate = rate.data(),
                               .bias = bias.data(),
                               .factors = factors.data(),
                               .decays = decays.data(),
                               .stride = stride,
                               .gate_stride = stride,
                               .columns = columns,
                               .key_heads = key_heads,
                               .value_heads = value_heads,
                               .key_length = width,
                               .joint = joint,
                               .eps = 1e-6F,
                               .delta_net = delta_net},
                              pool);
        for (std::uint32_t c = 0; c < columns; ++c) {
          for (std::uint32_t h = 0; h < value_heads; ++h) {
            const std::uint32_t at = joint == 0 ? h : h / joint * 2 * joint + h % joint;
            const float* const row = rows.data() + c * stride + 2 * keys;
            const double x = double{row[at + (joint == 0 ? value_heads : joint)]} + bias[h];
            const double step = x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
            const double factor = delta_net ? 1.0 / (1.0 + std::exp(-double{row[at]})) : step;
            const double decay = rate[h] * step;
            BOOST_TEST(std::fabs(decays[c * value_heads + h] - decay) <= 1e-6 * std::fabs(decay));
            BOOST_TEST(std::fabs(factors[c * value_heads + h] - factor) <= 1e-6 * std::fabs(factor));
          }
          for (std::uint32_t h = 0; delta_net && h < 2 * key_heads; ++h) {
            const float* const raw = rows.data() + c * stride + h * width;
            double sum = 1e-6;
            for (std::uint32_t i = 0; i < width; ++i) sum += double{raw[i]} * raw[i];
            const double scale = (h < key_heads ? 1.0 / std::sqrt(double{width}) : 1.0) / std::sqrt(sum);
            for (std::uint32_t i = 0; i < width; ++i)
              BOOST_TEST(std::fabs(given[c * stride + h * width + i] - raw[i] * scale) < 1e-6);
          }
        }
        given.insert(given.end(), decays.begin(), decays.end());
        given.insert(given.end(), factors.begin(), factors.end());
        if (first.empty()) first = given;
        BOOST_TEST((given == first));
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(convolutions_see_the_rows_before_in_every_cut) {
  constexpr std::uint32_t count = 60, channels = 37, rows = 24;
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  std::vector<float> in(count * channels), bias(channels);
  for (float& v : in) v = normal(random);
  for (float& v : bias) v = normal(random);
  for (std::uint32_t taps = 1; taps <= recurrent_taps_max; ++taps) {
    std::vector<float> weights(channels * taps);
    for (float& v : weights) v = normal(random);
    for (const bool silu : {false, true}) {
      std::vector<float> first;
      test::on_every_level([&](host::isa_level) {
        for (const std::uint32_t most : {count, 1U, 5U, 20U}) {
          std::vector<float> kept(rows * channels), out(in.size());
          host::thread_pool pool(1);
          for (std::uint32_t begin = 0; begin < count;) {
            const std::uint32_t end = std::min<std::uint32_t>(count, begin + 1 + random() % most);
            const recurrent_run run{.count = end - begin, .position = begin, .inputs = kept.data()};
            host::causal_conv({.runs = &run,
                               .in = in.data() + begin * channels,
                               .out = out.data() + begin * channels,
                               .in_stride = channels,
                               .out_stride = channels,
                               .weights = weights.data(),
                               .bias = silu ? bias.data() : nullptr,
                               .run_count = 1,
                               .channels = channels,
                               .taps = taps,
                               .rows = rows,
                               .silu = silu},
                              pool);
            begin = end;
          }
          if (first.empty()) first = out;
          BOOST_TEST((out == first));
        }
      });
      for (std::uint32_t t = 0; t < count; ++t) {
        for (std::uint32_t c = 0; c < channels; ++c) {
          double sum = silu ? bias[c] : 0.0;
          for (std::uint32_t j = 0; j < taps; ++j) {
            if (t + j + 1 >= taps)
              sum += double{weights[c * taps + j]} * in[(t + j + 1 - taps) * channels + c];
          }
          if (silu) sum /= 1.0 + std::exp(-sum);
          BOOST_TEST(std::fabs(first[t * channels + c] - sum) < 2e-6);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
