// What families beside Llama's need of the host's kernels, against double precision on every x86 level.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "kernels/host/gelu.hpp"
#include "kernels/host/layer_norm.hpp"
#include "kernels/host/rms_norm.hpp"
#include "kernels/host/scale.hpp"
#include "kernels/host/swiglu.hpp"
#include "kernels/host/thread_pool.hpp"
#include "test/support/encoder_reference.hpp"
#include "test/unit/kernels/host/reference.hpp"
#include "test/unit/kernels/host/router.hpp"

namespace {

using namespace orcd;
using kernels::expert_weighting;

double gelu_tanh_reference(double x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

std::vector<float> telling_values() {
  std::vector<float> x = test::normal_values(1003, 0.0F, 3.0F, 1);
  for (const float v :
       {0.0F, -0.0F, 1e-30F, -1e-6F, 0.249F, -0.251F, 5.0F, -5.0F, 40.0F, -40.0F, 1e10F, -1e10F})
    x.push_back(v);
  return x;
}

BOOST_AUTO_TEST_SUITE(family_kernels)

BOOST_AUTO_TEST_CASE(gelu_of_the_tanh_form_alone_and_as_a_gate) {
  kernels::host::thread_pool pool(1);
  const std::vector<float> x = telling_values();
  const auto width = static_cast<std::uint32_t>(x.size());
  const std::vector<float> up = test::normal_values(width, 0.0F, 2.0F, 2);
  test::on_every_level([&](kernels::host::isa_level) {
    std::vector<float> alone(width);
    std::vector<float> gated(width);
    kernels::host::gelu(
        {.x = x.data(), .out = alone.data(), .rows = 1, .width = width, .form = kernels::gelu_form::tanh},
        pool);
    kernels::host::swiglu({.gate = x.data(),
                           .up = up.data(),
                           .out = gated.data(),
                           .in_stride = width,
                           .rows = 1,
                           .width = width,
                           .kind = kernels::gated_activation::gelu},
                          pool);
    for (std::uint32_t i = 0; i < width; ++i) {
      const double want = gelu_tanh_reference(x[i]);
      const double bound = 5e-7 * std::max(1.0, std::fabs(double{x[i]}));
      BOOST_TEST_REQUIRE(std::fabs(alone[i] - want) <= bound, x[i]);
      BOOST_TEST_REQUIRE(std::fabs(gated[i] - want * up[i]) <= bound * (1.0 + std::fabs(double{up[i]})),
                         x[i]);
    }
  });
}

BOOST_AUTO_TEST_CASE(gelu_of_the_sigmoid_form) {
  kernels::host::thread_pool pool(1);
  const std::vector<float> x = telling_values();
  const auto width = static_cast<std::uint32_t>(x.size());
  test::on_every_level([&](kernels::host::isa_level) {
    std::vector<float> out(width);
    kernels::host::gelu(
        {.x = x.data(), .out = out.data(), .rows = 1, .width = width, .form = kernels::gelu_form::sigmoid},
        pool);
    for (std::uint32_t i = 0; i < width; ++i) {
      const double want = double{x[i]} / (1.0 + std::exp(-1.702 * double{x[i]}));
      BOOST_TEST_REQUIRE(std::fabs(out[i] - want) <= 5e-7 * std::max(1.0, std::fabs(double{x[i]})), x[i]);
    }
  });
}

BOOST_AUTO_TEST_CASE(values_are_scaled_and_capped) {
  kernels::host::thread_pool pool(2);
  const std::vector<float> before = telling_values();
  const auto width = static_cast<std::uint32_t>(before.size() / 2);
  for (const float cap : {0.0F, 0.5F, 30.0F}) {
    test::on_every_level([&](kernels::host::isa_level) {
      std::vector<float> x = before;
      kernels::host::scale(
          {.x = x.data(), .stride = width, .rows = 2, .width = width, .scale = 0.3F, .cap = cap}, pool);
      for (std::size_t i = 0; i < 2 * std::size_t{width}; ++i) {
        const double scaled = double{0.3F} * before[i];
        const double want = cap > 0.0F ? cap * std::tanh(scaled / cap) : scaled;
        // Relative: small values must not lose digits to the cap.
        BOOST_TEST_REQUIRE(std::fabs(x[i] - want) <= 1e-6 * std::fabs(want), before[i]);
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(layer_norm_without_a_bias) {
  kernels::host::thread_pool pool(1);
  constexpr std::uint32_t width = 96;
  const auto x = test::normal_values(width, 5.0F, 2.0F, 4);
  const auto weight = test::normal_values(width, 1.0F, 0.3F, 5);
  const std::vector<float> none(width, 0.0F);
  const auto want = test::layer_norm_reference(std::span(x), weight, none, 1e-5);
  test::on_every_level([&](kernels::host::isa_level) {
    std::vector<float> out(width);
    kernels::host::layer_norm(
        {.x = x.data(), .out = out.data(), .weight = weight.data(), .rows = 1, .width = width, .eps = 1e-5F},
        pool);
    for (std::uint32_t i = 0; i < width; ++i) BOOST_TEST(std::fabs(out[i] - want[i]) < 1e-5);
  });
}

BOOST_AUTO_TEST_CASE(norms_of_heads_with_weights_of_their_own) {
  kernels::host::thread_pool pool(1);
  constexpr std::uint32_t rows = 3, heads = 5, width = 24, stride = 200;
  const auto x = test::normal_values(std::size_t{rows} * stride, 5.0F, 2.0F, 6);
  const auto weight = test::normal_values(std::size_t{heads} * width, 1.0F, 0.3F, 7);
  const std::vector<float> none(width, 0.0F);
  test::on_every_level([&](kernels::host::isa_level) {
    std::vector<float> centred = x, rms = x;
    kernels::rms_norm_args norm{.x = rms.data(),
                                .out = rms.data(),
                                .weight = weight.data(),
                                .x_stride = stride,
                                .out_stride = stride,
                                .rows = rows,
                                .heads = heads,
                                .width = width,
                                .weight_stride = width,
                                .eps = 1e-2F};
    kernels::host::rms_norm(norm, pool);
    kernels::host::layer_norm({.x = centred.data(),
                               .out = centred.data(),
                               .weight = weight.data(),
                               .x_stride = stride,
                               .out_stride = stride,
                               .rows = rows,
                               .heads = heads,
                               .width = width,
                               .weight_stride = width,
                               .eps = 1e-2F},
                              pool);
    for (std::size_t at = 0; at < x.size(); ++at) {
      const std::size_t head = at % stride / width, i = at % stride % width;
      if (head >= heads) {
        BOOST_TEST_REQUIRE((centred[at] == x[at] && rms[at] == x[at]));
        continue;
      }
      const auto of = std::span(weight).subspan(head * width, width);
      const auto vector = std::span(x).subspan(at - i, width);
      double squares = 0.0;
      for (const float v : vector) squares += double{v} * v;
      const double scale = of[i] / std::sqrt(squares / width + 1e-2);
      BOOST_TEST_REQUIRE(std::fabs(rms[at] - x[at] * scale) < 1e-5);
      BOOST_TEST_REQUIRE(std::fabs(centred[at] - test::layer_norm_reference(vector, of, none, 1e-2)[i]) <
                         1e-5);
    }
  });
}

double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

BOOST_AUTO_TEST_CASE(sigmoids_choose_with_their_bias_and_weigh_without_it) {
  const std::vector<float> logits{0.5F, -1.0F, 2.0F, 0.0F};
  const std::vector<float> bias{0.0F, 0.9F, -0.5F, 0.0F};
  test::on_every_level([&](kernels::host::isa_level) {
    // 0.62, 0.27 + 0.9, 0.88 - 0.5, 0.5
    const auto got = test::router{.logits = logits,
                                  .bias = bias,
                                  .weighting = expert_weighting::sigmoid_renormalised,
                                  .scale = 1.5F}
                         .route(2);
    BOOST_TEST(got.chosen == (std::vector<std::uint32_t>{1, 0}), boost::test_tools::per_element());
    const double sum = sigmoid(-1.0) + sigmoid(0.5);
    BOOST_TEST(std::fabs(got.weights[0] - 1.5 * sigmoid(-1.0) / sum) < 1e-6);
    BOOST_TEST(std::fabs(got.weights[1] - 1.5 * sigmoid(0.5) / sum) < 1e-6);
    const auto plain = test::router{.logits = logits, .weighting = expert_weighting::sigmoid}.route(2);
    BOOST_TEST(plain.chosen == (std::vector<std::uint32_t>{2, 0}), boost::test_tools::per_element());
    BOOST_TEST(std::fabs(plain.weights[0] - sigmoid(2.0)) < 1e-6);
  });
}

BOOST_AUTO_TEST_CASE(weights_of_softmax_over_all_are_not_renormalised) {
  const std::vector<float> logits{1.0F, 3.0F, 2.0F};
  double total = 0.0;
  for (const float logit : logits) total += std::exp(double{logit});
  const auto got = test::router{.logits = logits, .weighting = expert_weighting::all}.route(2);
  BOOST_TEST(std::fabs(got.weights[0] - std::exp(3.0) / total) < 1e-6);
  BOOST_TEST(std::fabs(got.weights[1] - std::exp(2.0) / total) < 1e-6);
}

BOOST_AUTO_TEST_CASE(sigmoids_that_are_all_zero_give_no_nan) {
  const auto got =
      test::router{.logits = {-500.0F, -400.0F}, .weighting = expert_weighting::sigmoid_renormalised}.route(
          2);
  for (const float weight : got.weights) BOOST_TEST(std::isfinite(weight));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
