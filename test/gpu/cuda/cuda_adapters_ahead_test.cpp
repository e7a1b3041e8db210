// Steps with LoRA adapters launched ahead on the GPU, between steps without: jobs get the tokens that they
// get when every step waits for the host, while other adapters come and go.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>

#include "gpu/cuda/cuda_backend.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/unit/gpu/jobs_with_adapters.hpp"

namespace orcd::test {
namespace {

constexpr std::uint32_t jobs = 30;

std::unique_ptr<engine::accelerator> load(const jobs_with_adapters& m, std::uint32_t slots, bool pinned) {
  auto device = gpu::make_cuda_backend(
      {.end = gpu::device_end::keep, .chunk_tokens = 7, .pinned = pinned, .graphs = pinned});
  m.load(*device, slots);
  return device;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_adapters_ahead)

BOOST_AUTO_TEST_CASE(jobs_with_adapters_get_the_same_tokens_with_and_without_launching_ahead) {
  for (const std::string name : {"qwen2", "gpt-oss"}) {
    tiny_model_options shape = generated_shapes().at(name);
    // A head that is the embedding says the token before again, whatever adapters add.
    shape.tied_output = false;
    const jobs_with_adapters m(shape);
    tokens_of_jobs expected;
    for (const std::uint32_t slots : {1U, 5U, 18U}) {
      for (const bool pinned : {true, false}) {
        const auto device = load(m, slots, pinned);
        BOOST_TEST(device->launch_depth() == 2U);
        for (const std::uint32_t depth : {1U, 2U}) {
          depth_limit limited(*device, depth);
          const auto got = m.run(limited, slots, jobs);
          if (expected.empty()) expected = got;
          BOOST_TEST((got == expected),
                     name << ": depth " << depth << ", " << slots << " slots, pinned " << pinned);
        }
      }
    }
    m.check_that_adapters_matter(*load(m, 5, true), 5, expected);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
