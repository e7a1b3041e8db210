// LayerNorm and GELU against double precision, on every x86 level with the same bits.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <vector>

#include "kernels/host/gelu.hpp"
#include "kernels/host/kernel_table.hpp"
#include "kernels/host/layer_norm.hpp"
#include "test/support/encoder_reference.hpp"

using namespace orcd::kernels;
using namespace orcd::test;

namespace {

template <class Run>
void on_every_level(Run run) {
  std::vector<float> first;
  for (const auto level : {host::isa_level::baseline, host::isa_level::v3, host::isa_level::v4}) {
    const host::kernel_table* table = host::kernels_of(level);
    if (table == nullptr) continue;
    const std::vector<float> out = run(*table);
    if (first.empty()) first = out;
    BOOST_TEST(out == first, host::isa_name(level));
  }
}

BOOST_AUTO_TEST_SUITE(encoder_kernels)

BOOST_AUTO_TEST_CASE(layer_norm_is_that_of_double_precision) {
  for (const std::uint32_t width : {1U, 15U, 16U, 96U, 387U, 1024U}) {
    constexpr std::uint32_t rows = 3;
    const auto x = normal_values(std::size_t{rows} * width, 5.0F, 2.0F, width);
    const auto weight = normal_values(width, 1.0F, 0.3F, width + 1);
    const auto bias = normal_values(width, 0.0F, 0.5F, width + 2);
    on_every_level([&](const host::kernel_table& table) {
      std::vector<float> out(x.size());
      const layer_norm_args args{.x = x.data(),
                                 .out = out.data(),
                                 .weight = weight.data(),
                                 .bias = bias.data(),
                                 .x_stride = width,
                                 .out_stride = width,
                                 .rows = rows,
                                 .width = width,
                                 .eps = 1e-5F};
      for (std::uint32_t row = 0; row < rows; ++row) table.layer_norm_row(args, row);
      for (std::uint32_t row = 0; row < rows; ++row) {
        const auto expected =
            layer_norm_reference(std::span(x).subspan(std::size_t{row} * width, width), weight, bias, 1e-5);
        for (std::uint32_t i = 0; i < width; ++i)
          BOOST_TEST(std::fabs(out[std::size_t{row} * width + i] - expected[i]) < 1e-5);
      }
      return out;
    });
  }
}

BOOST_AUTO_TEST_CASE(gelu_is_the_exact_form) {
  std::vector<float> x = normal_values(1003, 0.0F, 3.0F, 1);
  for (const float v : {0.0F, -0.0F, 1e-30F, -1e-6F, 5.0F, -5.0F, 40.0F, -40.0F, 1e30F, -1e30F})
    x.push_back(v);
  double worst = 0.0;
  on_every_level([&](const host::kernel_table& table) {
    std::vector<float> out(x.size());
    table.gelu_row({x.data(), out.data(), 1, static_cast<std::uint32_t>(x.size())}, 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double v = x[i];
      worst = std::max(worst, std::fabs(out[i] - gelu_reference(v)) / std::max(1.0, std::fabs(v)));
    }
    return out;
  });
  BOOST_TEST_MESSAGE("GELU: largest error " << worst);
  BOOST_TEST(worst < 3e-7);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
