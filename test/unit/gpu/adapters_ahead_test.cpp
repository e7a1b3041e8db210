// Jobs with LoRA adapters behind a host backend that runs ahead: the same tokens at any depth and slot, while
// other adapters come and go.
#include <boost/test/unit_test.hpp>
#include <string>

#include "gpu/host/host_backend.hpp"
#include "test/unit/gpu/jobs_with_adapters.hpp"

namespace orcd::test {
namespace {

tiny_model_options shape_of(const std::string& family) {
  tiny_model_options shape;
  shape.family = family;
  shape.matrix_type = engine::ggml_type::q8_0;
  if (family == "gpt-oss") shape.expert_type = engine::ggml_type::mxfp4;
  return shape;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(adapters_ahead)

BOOST_AUTO_TEST_CASE(jobs_with_adapters_get_the_same_tokens_at_any_depth_and_slot) {
  for (const std::string family : {"qwen2", "gpt-oss"}) {
    const jobs_with_adapters m(shape_of(family));
    tokens_of_jobs expected;
    for (const std::uint32_t slots : {1U, 5U}) {
      for (const std::uint32_t depth : {1U, 2U}) {
        const auto device = gpu::make_host_backend({.threads = 1, .launch_depth = depth});
        m.load(*device, slots);
        const auto got = m.run(*device, slots, 15);
        if (expected.empty()) expected = got;
        BOOST_TEST((got == expected), family << ": depth " << depth << ", " << slots << " slots");
        m.check_that_adapters_matter(*device, slots, got);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
