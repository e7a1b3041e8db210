// A model on the GPU as the bitwise tests use it: tokens into slots, the logits of the last of them out.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/model/model_spec.hpp"
#include "gpu/cuda/cuda_backend.hpp"
#include "gpu/plan/arena_plan.hpp"
#include "gpu/plan/device_memory_plan.hpp"

namespace orcd::test {

class loaded_cuda_model {
 public:
  using parts = std::vector<std::pair<std::uint32_t, std::span<const engine::token_id>>>;

  loaded_cuda_model(const std::filesystem::path& path, std::uint32_t context,
                    const engine::rope_overrides& rope, gpu::cuda_backend_options options,
                    std::uint32_t slots, engine::kv_types kv = {}, engine::weight_source weights = {},
                    engine::cache_source cache = {})
      : file_(engine::gguf_file::open(path.string()).value()),
        model_(engine::load_model(file_, context, rope).value()),
        positions_(slots) {
    options.keep_logits = true;
    options.end = gpu::device_end::keep;
    device_ = gpu::make_cuda_backend(options);
    engine::accelerator_config config;
    config.slots = slots;
    config.context_tokens = context;
    config.kv = kv;
    config.window_groups = false;  // slots are used without begin()
    config.weights = std::move(weights);
    config.cache = std::move(cache);
    const auto loaded = device_->load(model_, config, [](unsigned) {});
    BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : loaded.error().message));
    const std::uint64_t scratch =
        config.cache.share || config.cache.imported ? gpu::kv_page_bytes(model_.spec, kv) : 0;
    BOOST_TEST(loaded->kv_bytes ==
               gpu::planned_kv_bytes(model_.spec, slots, context, kv) + scratch + states());
  }

  /// One step that appends to several sequences at once, each sampling greedily.
  void append(const parts& given) {
    std::vector<engine::sequence_step> steps;
    const engine::sample_request request{.params = &greedy_};
    for (const auto& [slot, tokens] : given) {
      steps.push_back({engine::slot_id{slot}, positions_[slot], tokens, &request});
      positions_[slot] += static_cast<std::uint32_t>(tokens.size());
    }
    sampled_.clear();
    BOOST_REQUIRE(device_->step(steps, never_, sampled_));
    BOOST_REQUIRE_EQUAL(sampled_.size(), given.size());
  }
  /// A step that only fills positions, without logits; whether it ran to its end. If not, every slot may
  /// only be released.
  [[nodiscard]] bool fill(std::uint32_t slot, std::span<const engine::token_id> tokens,
                          const engine::interrupt_flag& interrupt) {
    const engine::sequence_step step{engine::slot_id{slot}, positions_[slot], tokens, nullptr};
    positions_[slot] += static_cast<std::uint32_t>(tokens.size());
    sampled_.clear();
    return device_->step({&step, 1}, interrupt, sampled_);
  }
  /// A whole prompt in chunks of at most `most` tokens; the logits of its last token.
  std::vector<float> run(std::uint32_t slot, std::span<const engine::token_id> tokens,
                         std::size_t most = SIZE_MAX) {
    while (!tokens.empty()) {
      const std::size_t count = std::min({tokens.size(), most, std::size_t{device_->chunk_tokens()}});
      append({{slot, tokens.first(count)}});
      tokens = tokens.subspan(count);
    }
    return logits(slot);
  }
  [[nodiscard]] std::vector<float> logits(std::uint32_t slot) const {
    const auto row = device_->logits(engine::slot_id{slot});
    return {row.begin(), row.end()};
  }
  /// The slot goes on behind tokens whose KV is in these pages.
  void begin(std::uint32_t slot, std::span<const engine::kv_page> pages,
             std::span<const engine::token_id> held) {
    device_->begin({.slot = engine::slot_id{slot}, .pages = pages, .held = held});
    positions_[slot] = static_cast<std::uint32_t>(held.size());
  }
  void release(std::uint32_t slot) {
    device_->release(engine::slot_id{slot});
    positions_[slot] = 0;
  }
  [[nodiscard]] std::uint32_t position(std::uint32_t slot) const { return positions_[slot]; }
  [[nodiscard]] const engine::shared_weights* exported() const { return device_->exported_weights(); }
  [[nodiscard]] engine::accelerator& device() noexcept { return *device_; }
  [[nodiscard]] const engine::shared_cache* exported_cache() const { return device_->exported_cache(); }
  /// Of the group of states, if there is one.
  [[nodiscard]] std::uint64_t states() const {
    const engine::kv_geometry geometry = device_->kv_pages();
    if (!geometry.has_states()) return 0;
    return gpu::vram_aligned(geometry.further().back().pages * geometry.further().back().page_bytes);
  }
  [[nodiscard]] std::uint32_t vocab() const noexcept { return model_.spec.vocab; }

 private:
  engine::gguf_file file_;
  engine::model model_;
  std::unique_ptr<engine::accelerator> device_;
  std::vector<std::uint32_t> positions_;
  engine::sampling_params greedy_{.temperature = 0.0F};
  std::vector<engine::sampled_token> sampled_;
  const engine::interrupt_flag never_{false};
};

}  // namespace orcd::test
