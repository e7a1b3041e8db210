// A decode step as one kernel: it takes every family with f16 caches and without f32 weights, and gives the
// bits that a step of many kernels gives, from the first position over several pages.
#include <algorithm>
#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "gpu/cuda_forward.hpp"
#include "gpu/cuda_resources.hpp"
#include "gpu/cuda_weights.hpp"
#include "test/gpu/generated_cuda_model.hpp"

namespace orcd::test {
namespace {

namespace data = boost::unit_test::data;

/// A forward pass of a model, with what it needs.
class planned_forward {
 public:
  planned_forward(const std::string& path, gpu::cuda_extents extents)
      : file_(engine::gguf_file::open(path).value()),
        model_(engine::load_model(file_, extents.context, {}).value()),
        stream_(gpu::make_stream()),
        weights_arena_(0, gpu::plan_cuda_weights(model_).value()),
        cache_(0, gpu::planned_kv_bytes(model_.spec, extents.slots, extents.context, extents.kv)),
        work_(0, gpu::work_layout(model_.spec, extents).bytes),
        weights_(gpu::upload_cuda_weights(model_, weights_arena_, {}, [](unsigned) {})),
        forward_(model_, weights_, extents, work_, cache_, stream_.get()) {}

  [[nodiscard]] const kernels::decode_program& program() const { return forward_.program(); }
  [[nodiscard]] std::size_t layers() const { return model_.spec.layers.size(); }
  [[nodiscard]] bool has_experts() const { return model_.spec.experts > 0; }

 private:
  engine::gguf_file file_;
  engine::model model_;
  gpu::stream stream_;
  gpu::vram_arena weights_arena_, cache_, work_;
  gpu::cuda_weights weights_;
  gpu::cuda_forward forward_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(decode_program)

BOOST_DATA_TEST_CASE(every_family_is_taken, data::make(shape_names), name) {
  const generated_model generated(name);
  const planned_forward taken(generated.path(), {1, generated_context, 512, {}});
  const std::size_t phases = 1 + taken.layers() * (taken.has_experts() ? 7 : 5) + 1;  // the output head's
  BOOST_TEST(taken.program().count == (name == "llama" ? 0 : phases));  // f32: no room for a chunk
  const planned_forward other_cache(
      generated.path(), {1, generated_context, 512, {engine::kv_type::q8_0, engine::kv_type::f16}});
  BOOST_TEST(other_cache.program().count == 0U);
  gpu::cuda_extents many{1, generated_context, 512, {}};
  many.one_kernel = false;
  BOOST_TEST(planned_forward(generated.path(), many).program().count == 0U);
}

namespace {

void compare_one_kernel_with_many(const std::string& name, std::uint32_t positions) {
  const generated_model generated(name);
  auto one = generated.load({}, 1);
  auto many = generated.load({.one_kernel = false}, 1);
  std::minstd_rand random(7);
  for (std::uint32_t position = 0; position < positions; ++position) {
    const auto token = static_cast<engine::token_id>(random() % one.vocab());
    const auto seen = one.run(0, {&token, 1});
    const auto expected = many.run(0, {&token, 1});
    BOOST_REQUIRE_MESSAGE(seen == expected, name << ": other bits at position " << position);
    BOOST_REQUIRE(std::all_of(seen.begin(), seen.end(), [](float v) { return v == v; }));
  }
}

}  // namespace

BOOST_DATA_TEST_CASE(one_kernel_and_many_give_the_same_bits, data::make(shape_names), name) {
  compare_one_kernel_with_many(name, 600);
}

// How a norm is gathered depends on the width.
BOOST_DATA_TEST_CASE(wide_residual_streams_have_the_same_bits, data::make(wide_shape_names), name) {
  const generated_model generated(name);
  BOOST_TEST(planned_forward(generated.path(), {1, generated_context, 512, {}}).program().count > 0U);
  compare_one_kernel_with_many(name, 40);
}

BOOST_AUTO_TEST_CASE(several_pages_of_one_worker_have_the_same_bits) {
  compare_one_kernel_with_many("many-heads", 700);
}

// The second launch begins where the first has left its counters.
BOOST_AUTO_TEST_CASE(sequences_follow_each_other) {
  const generated_model generated("gpt-oss");
  auto model = generated.load({}, 2);
  const std::vector<engine::token_id> tokens{3, 1, 4, 1, 5, 9, 2, 6};
  const auto expected = model.run(0, tokens, 1);
  for (int i = 0; i < 3; ++i) {
    model.release(0);
    BOOST_TEST((model.run(0, tokens, 1) == expected));
    BOOST_TEST((model.run(1, tokens, 1) == expected));
    model.release(1);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
