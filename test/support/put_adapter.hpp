// A LoRA adapter put in one go: tests that are not about its parts.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/schedule/scheduler.hpp"

namespace orcd::test {

[[nodiscard]] inline engine::result<void> put_adapter(engine::scheduler& loop, std::uint32_t index,
                                                      const engine::lora_adapter& adapter) {
  if (auto begun = loop.begin_adapter(index, adapter); !begun) return begun;
  std::optional<engine::result<void>> done;
  while (!done) done = loop.continue_adapter();
  return *done;
}

}  // namespace orcd::test
