// An accelerator that keeps and computes nothing: what remains to measure is the scheduler's. Who derives
// from it says how long steps are, and which tokens they give.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/accelerator.hpp"

namespace orcd::bench {

class instant_accelerator : public engine::accelerator {
 public:
  engine::result<engine::memory_plan> load(const engine::model&, const engine::accelerator_config&,
                                           const std::function<void(unsigned)>&) override {
    return engine::memory_plan{};
  }
  void release(engine::slot_id) noexcept override {}
  void unmap_weights() override {}
  engine::result<void> map_weights(const engine::shared_weights&) override { return {}; }
  void drop_adapter(std::uint32_t) noexcept override {}
  void begin(const engine::sequence_start&) override {}
  void extend(engine::slot_id, std::uint32_t, std::uint32_t, std::span<const engine::kv_page>) override {}
  void clear(std::uint32_t, std::span<const engine::kv_page>) noexcept override {}
  void wait_idle() noexcept override {}
  std::vector<std::string> audit() override { return {}; }
  std::span<const float> logits(engine::slot_id) const noexcept override { return {}; }
  const char* name() const noexcept override { return "instant"; }
  bool resident() const noexcept override { return false; }
  std::uint64_t vram_bytes() const noexcept override { return 0; }
};

}  // namespace orcd::bench
