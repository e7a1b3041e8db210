// Steps with LoRA adapters launched ahead on the GPU, between steps without: jobs get the tokens that they
// get when every step waits for the host, while other adapters come and go.
#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_backend.hpp"
#include "test/gpu/cuda/generated_cuda_model.hpp"
#include "test/support/scheduled_run.hpp"
#include "test/unit/gpu/tiny_adapter.hpp"

namespace orcd::test {
namespace {

using engine::lora_target;
using engine::token_id;

constexpr std::uint32_t context = 128;
constexpr std::uint32_t jobs = 30;
constexpr std::uint32_t coming_and_going = 3;  ///< index of the adapter that no job names

struct ahead_adapters {
  explicit ahead_adapters(const std::string& shape)
      : image(make_tiny_model(generated_shapes().at(shape))),
        file(engine::gguf_file::parse(image, "tiny").value()),
        model(engine::load_model(file).value()) {
    adapters = {
        make_tiny_adapter(model, {.rank = 8, .seed = 1, .size = 0.5F}),
        make_tiny_adapter(
            model,
            {.rank = 3,
             .seed = 2,
             .size = 0.5F,
             .wanted = [](lora_target t) { return t == lora_target::attn_v || t == lora_target::attn_qkv; }}),
        make_tiny_adapter(model, {.rank = 5, .seed = 3, .size = 0.5F})};
    for (std::uint64_t seed = 4; seed < 6; ++seed)
      others.push_back(make_tiny_adapter(model, {.rank = 8, .seed = seed, .size = 2.0F}));
  }

  [[nodiscard]] std::unique_ptr<engine::accelerator> load(std::uint32_t slots, bool pinned,
                                                          bool graphs) const {
    auto device = gpu::make_cuda_backend(
        {.end = gpu::device_end::keep, .chunk_tokens = 7, .pinned = pinned, .graphs = graphs});
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = context;
    config.adapters = {4, 8};
    const auto loaded = device->load(model, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    return device;
  }

  /// Jobs without, with one (of all matrices or of two) and with two of them.
  [[nodiscard]] run_extras extras() const {
    run_extras out;
    out.begin = [this](engine::scheduler& loop) {
      for (std::uint32_t i = 0; i < adapters.size(); ++i) BOOST_REQUIRE(loop.put_adapter(i, adapters[i]));
    };
    out.change = [this](std::uint32_t number, engine::job_request& job) {
      const auto add = [&](std::uint32_t index, float strength) {
        job.adapters.push_back({index, strength, adapters[index].digest});
      };
      if (number % 5 == 1) add(0, 1.0F);
      if (number % 5 == 2) add(1, 0.5F);
      if (number % 5 == 3) {
        add(2, -1.0F);
        add(0, 0.5F);
      }
      if (number % 5 == 4) add(number % 3, 0.75F);
    };
    out.before_step = [this](engine::scheduler& loop, std::uint32_t step) {
      if (step % 3 == 1) BOOST_REQUIRE(loop.put_adapter(coming_and_going, others[step % others.size()]));
      if (step % 3 == 2) BOOST_REQUIRE(loop.drop_adapter(coming_and_going));
    };
    return out;
  }

  bytes image;
  engine::gguf_file file;
  engine::model model;
  std::vector<engine::lora_adapter> adapters, others;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_adapters_ahead)

BOOST_AUTO_TEST_CASE(jobs_with_adapters_get_the_same_tokens_with_and_without_launching_ahead) {
  for (const std::string name : {"qwen2", "gpt-oss"}) {
    const ahead_adapters m(name);
    scheduled_limits limits{
        .slots = 1, .vocab = m.model.spec.vocab, .context = context, .end_of_generation = {}};
    std::vector<std::vector<token_id>> expected;
    for (const std::uint32_t slots : {1U, 5U, 18U}) {
      for (const bool pinned : {true, false}) {
        limits.slots = slots;
        const auto device = m.load(slots, pinned, pinned);
        BOOST_TEST(device->launch_depth() == 2U);
        for (const std::uint32_t depth : {1U, 2U}) {
          depth_limit limited(*device, depth);
          const auto got = run_jobs(limited, limits, jobs, m.extras());
          if (expected.empty()) expected = got;
          BOOST_TEST((got == expected),
                     name << ": depth " << depth << ", " << slots << " slots, pinned " << pinned);
        }
      }
    }
    // Adapters change tokens at all.
    const auto device = m.load(5, true, true);
    const auto bare = run_jobs(
        *device,
        limits = {.slots = 5, .vocab = m.model.spec.vocab, .context = context, .end_of_generation = {}},
        jobs);
    std::uint32_t others = 0;
    for (std::uint32_t i = 0; i < jobs; ++i) {
      if (i % 5 == 0) BOOST_TEST((bare[i] == expected[i]), name << ": job " << i << " has no adapters");
      others += bare[i] == expected[i] ? 0 : 1;
    }
    BOOST_TEST(others > jobs / 4);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
