// Stacks of experts in NVFP4 with a scale for each expert: the products against f64, and the whole model
// against one whose experts' values, scales included, are stored in F32.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>

#include "gpu/host/host_tensors.hpp"
#include "kernels/host/matmul.hpp"
#include "kernels/host/thread_pool.hpp"
#include "test/support/random_blocks.hpp"
#include "test/unit/gpu/tiny_backend.hpp"

namespace orcd::test {
namespace {

using engine::ggml_type;
using engine::tensor_view;

constexpr std::uint32_t experts = 4;

tiny_model_options scaled() {
  tiny_model_options out;
  out.experts = experts;
  out.expert_type = ggml_type::nvfp4;
  out.expert_scales = true;
  return out;
}

/// The values of a stack of experts in the file, without their scales.
std::vector<float> decoded(const written_tensor& stack) {
  const std::uint64_t cols = stack.extents[0], rows = stack.extents[1] * stack.extents[2];
  const std::uint64_t row_bytes = engine::row_bytes(engine::traits_of(ggml_type::nvfp4), cols);
  std::vector<float> out(rows * cols);
  for (std::uint64_t r = 0; r < rows; ++r) {
    kernels::host::dequantize_row(ggml_type::nvfp4, stack.data.data() + r * row_bytes,
                                  static_cast<std::uint32_t>(cols), out.data() + r * cols);
  }
  return out;
}

std::vector<float> scales_of(gguf_writer& writer, const std::string& name) {
  std::vector<float> out(experts);
  const bytes& data = writer.find_tensor(name + ".scale")->data;
  BOOST_TEST_REQUIRE(data.size() == out.size() * sizeof(float));
  std::memcpy(out.data(), data.data(), data.size());
  return out;
}

/// The same model; without `scales` as if every expert had one of 1.
bytes in_f32(bool scales) {
  gguf_writer writer = make_tiny_writer(scaled());
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const std::string part : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
      written_tensor& stack = *writer.find_tensor(layer + part + ".weight");
      std::vector<float> values = decoded(stack);
      const std::vector<float> scale = scales_of(writer, layer + part);
      const std::size_t each = values.size() / experts;
      for (std::size_t i = 0; scales && i < values.size(); ++i)
        values[i] = static_cast<float>(double{values[i]} * scale[i / each]);
      stack.type = static_cast<std::uint32_t>(ggml_type::f32);
      stack.data.resize(values.size() * sizeof(float));
      std::memcpy(stack.data.data(), values.data(), stack.data.size());
      writer.remove_tensor(layer + part + ".scale");
    }
  }
  return writer.build();
}

double difference(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  double apart = 0.0, norm = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t k = 0; k < a[i].size(); ++k) {
      apart += std::pow(double{a[i][k]} - b[i][k], 2);
      norm += std::pow(double{a[i][k]}, 2);
    }
  }
  return std::sqrt(apart / norm);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expert_scales)

BOOST_AUTO_TEST_CASE(each_product_has_its_experts_scale) {
  kernels::host::thread_pool pool(1);
  gguf_writer writer = make_tiny_writer(scaled());
  const tiny_backend backend(writer.build(), {}, 1, {}, {});
  const tensor_view& stack = backend.model().weights.layers[1].expert_down;
  const std::vector<float> values = decoded(*writer.find_tensor("blk.1.ffn_down_exps.weight"));
  const std::vector<float> scale = scales_of(writer, "blk.1.ffn_down_exps");
  std::mt19937_64 random(3);
  std::vector<float> x(stack.cols()), y(stack.rows());
  for (float& v : x) v = random_unit(random);
  for (std::uint32_t e = 0; e < experts; ++e) {
    const kernels::matmul_args product{.weights = gpu::matrix_of(stack, e),
                                       .x = x.data(),
                                       .y = y.data(),
                                       .x_stride = x.size(),
                                       .y_stride = y.size(),
                                       .columns = 1};
    kernels::host::matmul({&product, 1}, pool);
    for (std::size_t r = 0; r < y.size(); ++r) {
      double sum = 0.0, magnitude = 0.0;
      for (std::size_t c = 0; c < x.size(); ++c) {
        const double term = double{values[(e * y.size() + r) * x.size() + c]} * scale[e] * x[c];
        sum += term;
        magnitude += std::fabs(term);
      }
      BOOST_TEST_REQUIRE(std::fabs(y[r] - sum) <= 1e-6 * magnitude, "expert " << e << " row " << r);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_model_is_the_one_whose_experts_have_been_multiplied) {
  const engine::kv_types exact{engine::kv_type::f32, engine::kv_type::f32};
  const auto run = [&](const bytes& image) {
    tiny_backend backend(image, {}, 1, exact, {});
    return backend.generate(engine::slot_id{0}, backend.prompt(12, 5), 12, 7);
  };
  const auto ours = run(make_tiny_model(scaled()));
  BOOST_TEST(difference(ours, run(in_f32(true))) < 1e-5);
  BOOST_TEST(difference(ours, run(in_f32(false))) > 1e-2);  // the comparison can fail
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
