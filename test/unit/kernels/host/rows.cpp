// Norms, activations, routing and rotation against f64.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/host/moe.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/rope.hpp"
#include "kernels/host/sine.hpp"
#include "kernels/host/swiglu.hpp"
#include "kernels/host/thread_pool.hpp"
#include "test/unit/kernels/host/reference.hpp"

namespace {

using namespace orcd;

constexpr float poison = std::numeric_limits<float>::quiet_NaN();

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double relative_error(double got, double want) {
  return std::fabs(got - want) / std::max(std::fabs(want), 1e-30);
}

std::vector<float> silu(const std::vector<float>& gate, bool clamped, kernels::host::thread_pool& pool,
                        const std::vector<float>& up) {
  std::vector<float> out(gate.size(), poison);
  kernels::host::swiglu(
      {.gate = gate.data(),
       .up = up.data(),
       .out = out.data(),
       .in_stride = gate.size(),
       .rows = 1,
       .width = static_cast<std::uint32_t>(gate.size()),
       .kind = clamped ? kernels::gated_activation::clamped : kernels::gated_activation::silu},
      pool);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rows)

// A factor of 1 changes no bit.
BOOST_AUTO_TEST_CASE(rms_norm_without_weights_is_that_with_ones) {
  kernels::host::thread_pool pool(2);
  std::mt19937_64 random(2);
  for (const std::uint32_t width : {1U, 17U, 512U}) {
    const std::vector<float> x = test::random_floats(std::size_t{6} * width, random);
    const std::vector<float> ones(width, 1.0F);
    test::on_every_level([&](kernels::host::isa_level) {
      const auto normed = [&](const float* weight) {
        std::vector<float> out(x.size());
        kernels::host::rms_norm({.x = x.data(),
                                 .out = out.data(),
                                 .weight = weight,
                                 .x_stride = 2 * std::size_t{width},
                                 .out_stride = 2 * std::size_t{width},
                                 .rows = 3,
                                 .heads = 2,
                                 .width = width,
                                 .eps = 1e-5F},
                                pool);
        return out;
      };
      BOOST_TEST(same_bits(normed(nullptr), normed(ones.data())));
    });
  }
}

BOOST_AUTO_TEST_CASE(rms_norm_agrees_with_f64) {
  kernels::host::thread_pool pool(2);
  std::mt19937_64 random(1);
  for (const std::uint32_t width : {1U, 15U, 16U, 17U, 64U, 576U, 2880U}) {
    const std::uint32_t rows = 3, heads = 2, stride = heads * width + 5;
    const std::vector<float> x = test::random_floats(std::size_t{rows} * stride, random);
    const std::vector<float> weight = test::random_floats(width, random);
    std::vector<float> first;
    test::on_every_level([&](kernels::host::isa_level) {
      std::vector<float> out(x.size(), 3.0F);
      kernels::host::rms_norm({.x = x.data(),
                               .out = out.data(),
                               .weight = weight.data(),
                               .x_stride = stride,
                               .out_stride = stride,
                               .rows = rows,
                               .heads = heads,
                               .width = width,
                               .eps = 1e-5F},
                              pool);
      if (first.empty()) first = out;
      BOOST_TEST(same_bits(first, out));
    });
    for (std::uint32_t row = 0; row < rows; ++row) {
      for (std::uint32_t head = 0; head < heads; ++head) {
        const float* v = &x[row * stride + head * width];
        double squares = 0.0;
        for (std::uint32_t i = 0; i < width; ++i) squares += double{v[i]} * v[i];
        const double scale = 1.0 / std::sqrt(squares / width + double{1e-5F});
        for (std::uint32_t i = 0; i < width; ++i) {
          // The mean errs by at most (width/16 + 5) roundings, halved by the root; three more follow.
          const double bound = (width / 32 + 8) * 0x1p-24;
          BOOST_TEST_REQUIRE(
              relative_error(first[row * stride + head * width + i], v[i] * scale * weight[i]) <= bound);
        }
      }
      for (std::uint32_t i = heads * width; i < stride; ++i) BOOST_TEST(first[row * stride + i] == 3.0F);
    }
  }
}

BOOST_AUTO_TEST_CASE(silu_and_its_exponential_are_accurate_everywhere) {
  kernels::host::thread_pool pool(2);
  std::vector<float> gate;
  for (int i = -110'000; i <= 110'000; ++i) gate.push_back(static_cast<float>(i) * 0.001F);
  const std::vector<float> up(gate.size(), 1.0F);
  std::vector<float> first;
  test::on_every_level([&](kernels::host::isa_level) {
    const std::vector<float> out = silu(gate, false, pool, up);
    if (first.empty()) first = out;
    BOOST_TEST(same_bits(first, out));
  });
  double worst = 0.0;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i];
    if (g < -86.0) {
      BOOST_TEST_REQUIRE(std::fabs(first[i]) < 1e-34F);  // too small to matter, never NaN
      continue;
    }
    worst = std::max(worst, relative_error(first[i], g / (1.0 + std::exp(-g))));
  }
  BOOST_TEST(worst < 4e-7);
  BOOST_TEST(worst > 1e-9);  // the comparison saw real values
}

BOOST_AUTO_TEST_CASE(clamped_swiglu_follows_its_definition) {
  kernels::host::thread_pool pool(1);
  std::mt19937_64 random(3);
  std::vector<float> gate = test::random_floats(1001, random), up = test::random_floats(1001, random);
  for (float& g : gate) g *= 12.0F;
  for (float& u : up) u *= 12.0F;
  gate[0] = 7.0F, up[0] = -7.0F;
  gate[1] = 100.0F, up[1] = 100.0F;
  gate[2] = -100.0F, up[2] = -100.0F;
  test::on_every_level([&](kernels::host::isa_level) {
    const std::vector<float> out = silu(gate, true, pool, up);
    for (std::size_t i = 0; i < gate.size(); ++i) {
      const double g = std::min(double{gate[i]}, 7.0);
      const double u = std::clamp(double{up[i]}, -7.0, 7.0);
      const double want = g / (1.0 + std::exp(-double{1.702F} * g)) * (u + 1.0);
      // u + 1 may cancel: its error is relative to 1.
      const double bound = std::fabs(want) * 1e-6 + std::fabs(g) * 1.2e-7;
      BOOST_TEST_REQUIRE(std::fabs(out[i] - want) <= bound, "g " << g << " u " << u << ": " << out[i]);
    }
  });
}

BOOST_AUTO_TEST_CASE(routing_takes_the_highest_logits_ties_to_the_lowest_id) {
  kernels::host::thread_pool pool(1);
  const std::vector<float> logits = {
      1.0F, 3.0F, 3.0F, 0.0F, 3.0F, 2.0F,   // a three-way tie for the first place
      0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F};  // all equal
  test::on_every_level([&](kernels::host::isa_level) {
    for (const bool softmax_all : {false, true}) {
      std::vector<std::uint32_t> chosen(8, 99);
      std::vector<float> weights(8, poison);
      kernels::host::moe_route({.logits = logits.data(),
                                .chosen = chosen.data(),
                                .weights = weights.data(),
                                .columns = 2,
                                .experts = 6,
                                .used = 4,
                                .weighting = softmax_all ? kernels::expert_weighting::all_renormalised
                                                         : kernels::expert_weighting::selected},
                               pool);
      const std::vector<std::uint32_t> want = {1, 2, 4, 5, 0, 1, 2, 3};
      BOOST_TEST(chosen == want, boost::test_tools::per_element());
      const double e = std::exp(-1.0);
      for (int i = 0; i < 3; ++i) BOOST_TEST(relative_error(weights[i], 1.0 / (3.0 + e)) < 5e-7);
      BOOST_TEST(relative_error(weights[3], e / (3.0 + e)) < 5e-7);
      for (int i = 4; i < 8; ++i) BOOST_TEST(relative_error(weights[i], 0.25) < 5e-7);
    }
  });
}

BOOST_AUTO_TEST_CASE(routing_among_many_experts_is_that_of_a_stable_sort) {
  kernels::host::thread_pool pool(2);
  constexpr std::uint32_t columns = 20, used = 4;
  for (const std::uint32_t experts : {33U, 128U, kernels::moe_experts_max}) {
    std::mt19937_64 random(experts);
    std::vector<float> logits = test::random_floats(columns * experts, random);
    // Few distinct values in every second column, so that ties are the rule.
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (i / experts % 2 == 1) logits[i] = std::round(logits[i] * 4.0F);
    }
    test::on_every_level([&](kernels::host::isa_level) {
      std::vector<std::uint32_t> chosen(columns * used, 9999);
      std::vector<float> weights(columns * used, poison);
      kernels::host::moe_route({.logits = logits.data(),
                                .chosen = chosen.data(),
                                .weights = weights.data(),
                                .columns = columns,
                                .experts = experts,
                                .used = used},
                               pool);
      for (std::uint32_t c = 0; c < columns; ++c) {
        const float* const row = logits.data() + std::size_t{c} * experts;
        std::vector<std::uint32_t> order(experts);
        std::iota(order.begin(), order.end(), 0U);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return row[a] > row[b]; });
        double sum = 0;
        for (std::uint32_t i = 0; i < used; ++i) sum += std::exp(double{row[order[i]]} - row[order[0]]);
        for (std::uint32_t i = 0; i < used; ++i) {
          BOOST_TEST(chosen[c * used + i] == order[i]);
          BOOST_TEST(relative_error(weights[c * used + i],
                                    std::exp(double{row[order[i]]} - row[order[0]]) / sum) < 1e-6);
        }
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(nan_logits_still_choose_distinct_experts) {
  kernels::host::thread_pool pool(1);
  const std::vector<float> logits(5, poison);
  std::uint32_t chosen[3] = {99, 99, 99};
  float weights[3];
  kernels::host::moe_route(
      {.logits = logits.data(), .chosen = chosen, .weights = weights, .columns = 1, .experts = 5, .used = 3},
      pool);
  BOOST_TEST(chosen[0] == 0U);
  BOOST_TEST(chosen[1] == 1U);
  BOOST_TEST(chosen[2] == 2U);
}

BOOST_AUTO_TEST_CASE(combine_adds_the_weighted_parts_to_the_residual) {
  kernels::host::thread_pool pool(2);
  std::mt19937_64 random(4);
  const std::uint32_t columns = 3, used = 4, width = 37;
  const std::vector<float> expert_out = test::random_floats(columns * used * width, random);
  const std::vector<float> weights = test::random_floats(columns * used, random);
  const std::vector<float> before = test::random_floats(columns * width, random);
  test::on_every_level([&](kernels::host::isa_level) {
    std::vector<float> residual = before;
    kernels::host::moe_combine({.expert_out = expert_out.data(),
                                .weights = weights.data(),
                                .residual = residual.data(),
                                .columns = columns,
                                .used = used,
                                .width = width},
                               pool);
    for (std::uint32_t c = 0; c < columns; ++c) {
      for (std::uint32_t i = 0; i < width; ++i) {
        double want = before[c * width + i];
        for (std::uint32_t e = 0; e < used; ++e)
          want += double{weights[c * used + e]} * expert_out[(c * used + e) * width + i];
        BOOST_TEST_REQUIRE(std::fabs(residual[c * width + i] - want) <= 5 * 8 * 0x1p-24);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(sine_and_cosine_are_accurate_to_two_to_the_26) {
  std::mt19937_64 random(5);
  for (int i = 0; i < 200'000; ++i) {
    const double range = std::ldexp(1.0, static_cast<int>(random() % 27));
    const double x = range * static_cast<double>(random() >> 11) * 0x1p-53;
    const auto got = kernels::host::sine_and_cosine(x);
    BOOST_TEST_REQUIRE(std::fabs(got.sine - std::sin(x)) < 1e-15, "sine of " << x);
    BOOST_TEST_REQUIRE(std::fabs(got.cosine - std::cos(x)) < 1e-15, "cosine of " << x);
  }
  BOOST_TEST(kernels::host::sine_and_cosine(0.0).cosine == 1.0);
  BOOST_TEST(kernels::host::sine_and_cosine(0.0).sine == 0.0);
}

BOOST_AUTO_TEST_CASE(rotation_pairs_and_passes_the_rest_through) {
  kernels::host::thread_pool pool(2);
  const std::uint32_t columns = 5, heads = 3, width = 10, pairs = 3, stride = heads * width + 7;
  std::mt19937_64 random(6);
  const std::vector<float> x = test::random_floats(std::size_t{columns} * stride, random);
  const float inv_freq[] = {1.0F, 0.1F, 0.01F};
  const std::uint32_t positions[] = {0, 1, 77, 4095, 131'071};
  std::vector<float> cosines(columns * pairs, poison), sines(columns * pairs, poison);
  const float magnitude = 1.25F;
  kernels::host::rope_angles({.inv_freq = inv_freq,
                              .positions = positions,
                              .cosines = cosines.data(),
                              .sines = sines.data(),
                              .magnitude = magnitude,
                              .pairs = pairs,
                              .columns = columns},
                             pool);
  for (const bool interleaved : {false, true}) {
    std::vector<float> got = x;
    kernels::host::rope({.x = got.data(),
                         .cosines = cosines.data(),
                         .sines = sines.data(),
                         .x_stride = stride,
                         .columns = columns,
                         .heads = heads,
                         .head_width = width,
                         .pairs = pairs,
                         .interleaved = interleaved},
                        pool);
    std::vector<double> want(x.begin(), x.end());
    for (std::uint32_t c = 0; c < columns; ++c) {
      for (std::uint32_t h = 0; h < heads; ++h) {
        for (std::uint32_t i = 0; i < pairs; ++i) {
          const std::size_t head = std::size_t{c} * stride + h * width;
          const std::size_t a = head + (interleaved ? 2 * i : i),
                            b = head + (interleaved ? 2 * i + 1 : i + pairs);
          const double angle = double{inv_freq[i]} * positions[c];
          want[a] = magnitude * (x[a] * std::cos(angle) - x[b] * std::sin(angle));
          want[b] = magnitude * (x[a] * std::sin(angle) + x[b] * std::cos(angle));
        }
      }
    }
    for (std::size_t i = 0; i < got.size(); ++i)
      BOOST_TEST_REQUIRE(std::fabs(got[i] - want[i]) < 1e-6, "value " << i);
  }
}

BOOST_AUTO_TEST_SUITE_END()
