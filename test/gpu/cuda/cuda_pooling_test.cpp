// Embeddings and scores on the GPU: against transformers, their bits in every slot, order and chunk, and the
// kernels that only encoders need against double precision.
#include <cuda_fp16.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdio>

#include "gpu/cuda/cuda_backend.hpp"
#include "kernels/layer/encoder.hpp"
#include "test/gpu/device_array.hpp"
#include "test/support/encoder_reference.hpp"
#include "test/unit/golden/pooled_device.hpp"

namespace data = boost::unit_test::data;

namespace orcd::test {
namespace {

// Activations enter products in f16, K and V are kept in f16.
constexpr double relative_bound = 1e-2;
constexpr double cosine_bound = 5e-5;

pooled_device cuda(const pooled_use& use, std::uint32_t slots, std::uint32_t chunk) {
  gpu::cuda_backend_options options;
  options.end = gpu::device_end::keep;
  options.chunk_tokens = chunk;
  return {use, slots, gpu::make_cuda_backend(options)};
}

BOOST_AUTO_TEST_SUITE(cuda_pooling)

BOOST_DATA_TEST_CASE(pooled_states_match_the_oracle, data::make(pooled_uses), name) {
  const pooled_use use = read_pooled_use(name);
  auto model = cuda(use, 1, 512);
  pooled_difference worst;
  for (const pooled_case& c : use.cases) worst.raise_to(compare_pooled(model.run(c), c.pooled));
  std::printf("%s on the GPU: relative error %.1e, largest %.1e, 1 - cosine %.1e\n", name.c_str(),
              worst.relative, worst.largest, worst.cosine);
  BOOST_TEST(worst.relative < relative_bound);
  BOOST_TEST(worst.cosine < cosine_bound);
}

BOOST_DATA_TEST_CASE(the_bits_depend_on_nothing_but_the_input, data::make(pooled_uses), name) {
  const pooled_use use = read_pooled_use(name);
  auto alone = cuda(use, 1, 512);
  auto small = cuda(use, 1, 7);
  auto pool = cuda(use, 4, 512);
  std::vector<std::vector<float>> expected;
  for (const pooled_case& c : use.cases) {
    expected.push_back(alone.run(c));
    BOOST_TEST((small.run(c) == expected.back()));
    BOOST_TEST((alone.run(c) == expected.back()));
  }
  expect_same_bits(use, pool, expected);
}

BOOST_AUTO_TEST_CASE(post_norm_is_layer_norm_in_place_with_a_copy) {
  for (const std::uint32_t width : {32U, 96U, 384U, 1000U, 1024U}) {
    constexpr std::uint32_t rows = 5;
    const std::uint32_t stride = (width + 63) / 64 * 64;
    const auto x = normal_values(std::size_t{rows} * width, 3.0F, 2.0F, width);
    const auto weight = normal_values(width, 1.0F, 0.3F, width + 1);
    const auto bias = normal_values(width, 0.0F, 0.5F, width + 2);
    device_array<float> on_device{std::span<const float>(x)};
    device_array<float> w{std::span<const float>(weight)};
    device_array<float> b{std::span<const float>(bias)};
    device_array<__half> copy(std::size_t{rows} * stride);
    BOOST_REQUIRE_EQUAL(
        kernels::launch_post_norm(
            {on_device.data(), w.data(), b.data(), width, rows, 1e-5F, copy.data(), stride}, nullptr),
        0);
    const auto out = on_device.read();
    const auto half = copy.read();
    for (std::uint32_t row = 0; row < rows; ++row) {
      const auto expected =
          layer_norm_reference(std::span(x).subspan(std::size_t{row} * width, width), weight, bias, 1e-5);
      for (std::uint32_t i = 0; i < stride; ++i) {
        const float kept = __half2float(half[std::size_t{row} * stride + i]);
        if (i >= width) {
          BOOST_TEST(kept == 0.0F);
          continue;
        }
        const float ours = out[std::size_t{row} * width + i];
        BOOST_TEST(std::fabs(ours - expected[i]) < 2e-5);
        BOOST_TEST(kept == __half2float(__float2half_rn(ours)));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gelu_is_the_exact_form) {
  constexpr std::uint32_t width = 1003, stride = 1024;
  auto x = normal_values(width, 0.0F, 3.0F, 1);
  for (std::size_t i = 0; const float v : {0.0F, -0.0F, 1e-6F, 5.0F, -5.0F, 40.0F, -40.0F, 1e30F, -1e30F})
    x[i++] = v;
  device_array<float> in{std::span<const float>(x)};
  device_array<__half> out(stride);
  BOOST_REQUIRE_EQUAL(kernels::launch_gelu_to_half({in.data(), width, 1, out.data(), stride}, nullptr), 0);
  const auto ours = out.read();
  for (std::uint32_t i = 0; i < stride; ++i) {
    const double v = i < width ? x[i] : 0.0;
    const double exact = std::min(gelu_reference(v), 65504.0);
    BOOST_TEST(std::fabs(__half2float(ours[i]) - exact) <= 1e-6 + std::fabs(exact) * 0x1.1p-11);
  }
}

BOOST_AUTO_TEST_CASE(positions_and_types_are_added_in_order) {
  constexpr std::uint32_t width = 100, columns = 4;
  const auto x = normal_values(std::size_t{columns} * width, 0.0F, 1.0F, 1);
  const auto positions = normal_values(std::size_t{9} * width, 0.0F, 1.0F, 2);
  const auto types = normal_values(std::size_t{2} * width, 0.0F, 1.0F, 3);
  const std::vector<kernels::step_token> steps{{1, 4, 0}, {1, 5, 0}, {1, 6, 0}, {1, 8, 0}};
  device_array<float> on_device{std::span<const float>(x)};
  device_array<float> p{std::span<const float>(positions)};
  device_array<float> t{std::span<const float>(types)};
  device_array<kernels::step_token> s{std::span<const kernels::step_token>(steps)};
  BOOST_REQUIRE_EQUAL(kernels::launch_add_positions(
                          {on_device.data(), p.data(), t.data(), s.data(), width, columns, 6}, nullptr),
                      0);
  const auto out = on_device.read();
  for (std::uint32_t c = 0; c < columns; ++c) {
    const std::uint32_t at = static_cast<std::uint32_t>(steps[c].position);
    for (std::uint32_t i = 0; i < width; ++i) {
      const float type = types[(at >= 6 ? width : 0) + i];
      BOOST_TEST(out[c * width + i] == x[c * width + i] + type + positions[at * width + i]);
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
  BOOST_TEST(kernels::launch_post_norm({}, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(kernels::launch_gelu_to_half({}, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(kernels::launch_add_positions({}, nullptr) == cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
