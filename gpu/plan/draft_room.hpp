// How many drafts a step on a GPU has room for, and what they take: logits and attention's partial results of
// each. The column that each has of every other buffer is part of the workspace. Planned from shapes alone,
// so that a plan without a GPU counts what the backend allocates. Pure.
#pragma once

#include <cstdint>

#include "engine/model/model_spec.hpp"

namespace orcd::gpu {

/// Drafts of a step; more sequences at once than have so many hardly have any that pay.
inline constexpr std::uint32_t draft_tokens_wanted = 64;
inline constexpr std::uint64_t draft_bytes_max = 256ULL << 20U;

struct draft_room {
  std::uint32_t tokens = 0;  ///< of a step, all sequences together
  std::uint64_t bytes = 0;   ///< of device memory
};

/// Up to `wanted` drafts, fewer where they would take more than draft_bytes_max or more results than a step
/// has. None of models that embed or rank. `pages`: of a slot's context.
[[nodiscard]] draft_room plan_drafts(const engine::model_spec& spec, std::uint32_t slots, std::uint32_t pages,
                                     std::uint32_t wanted) noexcept;

}  // namespace orcd::gpu
