#include "test/unit/golden/loaded_model.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "gpu/host/host_backend.hpp"

namespace orcd::test {
namespace {

constexpr engine::slot_id slot{0};

}  // namespace

loaded_model::loaded_model(const std::filesystem::path& path, std::uint32_t context,
                           const engine::rope_overrides& rope, std::uint32_t chunk_tokens,
                           engine::kv_types kv, engine::adapter_room adapters, gpu::layer_tap tap)
    : file_(engine::gguf_file::open(path.string()).value()),
      model_(engine::load_model(file_, context, rope).value()) {
  gpu::host_backend_options options;
  options.chunk_tokens = chunk_tokens;
  options.tap = std::move(tap);
  device_ = gpu::make_host_backend(options);
  engine::accelerator_config config;
  config.context_tokens = context;
  config.kv = kv;
  config.adapters = adapters;
  if (auto plan = device_->load(model_, config, [](unsigned) {}); !plan)
    throw engine::error_exception(plan.error());
}

void loaded_model::put_on(const engine::lora_adapter& adapter, float strength) {
  device_->put_adapter(0, adapter).value();
  std::vector<engine::kv_page> pages(device_->kv_pages().pages);
  std::iota(pages.begin(), pages.end(), 0);
  const engine::active_adapter one{0, strength};
  device_->begin({slot, pages, {}, {}, {&one, 1}});
}

engine::token_id loaded_model::append(std::span<const engine::token_id> tokens) {
  engine::sampling_params greedy;
  greedy.temperature = 0.0F;
  const engine::sample_request request{.params = &greedy};
  const engine::interrupt_flag never = false;
  std::vector<engine::sampled_token> sampled;
  while (!tokens.empty()) {
    const auto part = tokens.first(std::min<std::size_t>(tokens.size(), device_->chunk_tokens()));
    tokens = tokens.subspan(part.size());
    const engine::sequence_step step{slot, position_, part, tokens.empty() ? &request : nullptr};
    if (!device_->step({&step, 1}, never, sampled)) throw std::runtime_error("a step stopped early");
    position_ += static_cast<std::uint32_t>(part.size());
  }
  if (sampled.size() != 1) throw std::runtime_error("a step did not sample exactly once");
  return sampled.front().token;
}

void loaded_model::restart() {
  device_->release(slot);
  position_ = 0;
}

std::span<const float> loaded_model::logits() const {
  return device_->logits(slot);
}

}  // namespace orcd::test
