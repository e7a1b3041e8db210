// Jobs with LoRA adapters in one scheduler with jobs without, while other adapters come and go. For the tests
// of every backend.
#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "test/support/put_adapter.hpp"
#include "test/support/scheduled_run.hpp"
#include "test/support/tiny_model.hpp"
#include "test/unit/gpu/tiny_adapter.hpp"

namespace orcd::test {

using tokens_of_jobs = std::vector<std::vector<engine::token_id>>;

/// A model, three adapters that jobs name, and two that none does.
class jobs_with_adapters {
 public:
  static constexpr std::uint32_t context = 128;

  explicit jobs_with_adapters(const tiny_model_options& shape)
      : image_(make_tiny_model(shape)),
        file_(engine::gguf_file::parse(image_, "tiny").value()),
        model_(engine::load_model(file_).value()) {
    const auto of_values = [](engine::lora_target target) {
      return target == engine::lora_target::attn_v || target == engine::lora_target::attn_qkv;
    };
    adapters_ = {make_tiny_adapter(model_, {.rank = 8, .seed = 1, .size = 0.5F}),
                 make_tiny_adapter(model_, {.rank = 3, .seed = 2, .size = 0.5F, .wanted = of_values}),
                 make_tiny_adapter(model_, {.rank = 5, .seed = 3, .size = 0.5F})};
    for (std::uint64_t seed = 4; seed < 6; ++seed)
      others_.push_back(make_tiny_adapter(model_, {.rank = 8, .seed = seed, .size = 2.0F}));
  }

  void load(engine::accelerator& device, std::uint32_t slots) const {
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = context;
    config.adapters = {4, 8};
    const auto loaded = device.load(model_, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
  }

  [[nodiscard]] tokens_of_jobs run(engine::accelerator& device, std::uint32_t slots,
                                   std::uint32_t jobs) const {
    run_extras extras;
    extras.begin = [this](engine::scheduler& loop) {
      for (std::uint32_t i = 0; i < adapters_.size(); ++i) BOOST_REQUIRE(put_adapter(loop, i, adapters_[i]));
    };
    extras.change = [this](std::uint32_t number, engine::job_request& job) { give(number, job); };
    extras.before_step = [this](engine::scheduler& loop, std::uint32_t step) {
      const auto free = static_cast<std::uint32_t>(adapters_.size());
      if (step % 3 == 1) BOOST_REQUIRE(put_adapter(loop, free, others_[step % others_.size()]));
      if (step % 3 == 2) BOOST_REQUIRE(loop.drop_adapter(free));
    };
    return run_jobs(device, limits(slots), jobs, extras);
  }

  /// That the adapters of jobs, and nothing else, change what they get; `got`: by run().
  void check_that_adapters_matter(engine::accelerator& device, std::uint32_t slots,
                                  const tokens_of_jobs& got) const {
    const auto bare = run_jobs(device, limits(slots), static_cast<std::uint32_t>(got.size()));
    for (std::uint32_t i = 0; i < got.size(); ++i) {
      const std::string where = "job " + std::to_string(i);
      // A few tokens may be the same by chance.
      if (has_none(i)) BOOST_TEST((bare[i] == got[i]), where);
      if (!has_none(i) && got[i].size() >= 10) BOOST_TEST((bare[i] != got[i]), where);
    }
  }

 private:
  [[nodiscard]] static bool has_none(std::uint32_t number) { return number % 5 == 0; }

  /// None, one (of all matrices or of one kind) or two.
  void give(std::uint32_t number, engine::job_request& job) const {
    const auto add = [&](std::uint32_t index, float strength) {
      job.adapters.push_back({index, strength, adapters_[index].digest});
    };
    if (number % 5 == 1) add(0, 1.0F);
    if (number % 5 == 2) add(1, 0.5F);
    if (number % 5 == 3) {
      add(2, -1.0F);
      add(0, 0.5F);
    }
    if (number % 5 == 4) add(number % 3, 0.75F);
  }
  [[nodiscard]] scheduled_limits limits(std::uint32_t slots) const {
    return {.slots = slots, .vocab = model_.spec.vocab, .context = context, .end_of_generation = {}};
  }

  bytes image_;
  engine::gguf_file file_;
  engine::model model_;
  std::vector<engine::lora_adapter> adapters_, others_;
};

}  // namespace orcd::test
