// The sizes that the CUDA backend is loaded for, from which all of its memory follows. Numbers alone.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/base/prompt_tokens.hpp"
#include "engine/model/boundary_budget.hpp"
#include "engine/model/kv_type.hpp"

namespace orcd::gpu {

/// The sizes that memory is planned for.
struct cuda_extents {
  std::uint32_t slots = 1;
  std::uint32_t context = 0;  ///< positions a slot
  std::uint32_t chunk_tokens = engine::prompt_tokens_least;
  engine::kv_types kv{};
  std::uint32_t kv_pages = 0;  ///< of the KV cache; 0 = a context's worth for every slot
  /// Most sequences of a decode step that is one kernel, if the kernel can do the model; unset:
  /// sequences_best().
  std::optional<std::uint32_t> one_kernel{};
  bool phase_stamps = false;  ///< the kernel records the times of its phases
  /// One more page of each group, which nobody is told of: what runs while an engine is loaded must write to
  /// none that another engine may be using.
  bool scratch_page = false;
  /// Sequences may have adapters, whose steps are many kernels even where others are one.
  bool adapters = false;
  std::uint32_t draft_tokens = 0;  ///< of a step, all sequences together
  /// As engine::accelerator_config has them.
  bool window_groups = false;
  engine::boundary_budget boundaries{};

  [[nodiscard]] std::uint32_t pages() const noexcept {
    return kv_pages == 0 ? slots * pages_per_slot() : kv_pages;
  }
  /// Pages of each group of which nobody is told.
  [[nodiscard]] std::uint32_t spare_pages() const noexcept { return scratch_page ? 1 : 0; }
  [[nodiscard]] std::uint32_t pages_per_slot() const noexcept {
    return (context + engine::kv_page_positions - 1) / engine::kv_page_positions;
  }
  /// Most tokens of a step that sample.
  [[nodiscard]] std::uint32_t sampling() const noexcept { return slots + draft_tokens; }
  /// Most columns of a pass: those of prompts, and of decoding sequences beside them.
  [[nodiscard]] std::uint32_t columns() const noexcept { return chunk_tokens + sampling(); }
  /// The same where a sequence has adapters: prompts and decoding sequences have passes of their own.
  [[nodiscard]] std::uint32_t adapted_columns() const noexcept {
    return chunk_tokens > sampling() ? chunk_tokens : sampling();
  }
};

}  // namespace orcd::gpu
