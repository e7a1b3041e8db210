// The head of a journal, which says what the memory is. It is there twice, at the beginning and in the last
// page, each copy with a sum, so that no one stray write spoils both. It is written when the journal is made;
// later only a spoilt copy is, so that one is whole at any moment. Nothing that is read here is believed. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/error.hpp"

namespace orcd::net {

enum class head_state {
  whole,         ///< both copies are
  one_spoilt,    ///< the other one tells everything
  damaged,       ///< nobody can tell what the memory is, or it has another size than its head says
  other_format,  ///< a journal of a build that lays it out otherwise
};

/// Of this memory, whatever is in it. Pure.
[[nodiscard]] head_state look_at_head(std::span<const std::byte> memory);
/// Of the file behind a descriptor, which is not mapped. Errors: worker_start_failed, where it cannot be
/// read.
[[nodiscard]] engine::result<head_state> look_at_head(int descriptor);
/// Writes the copies that are not what they are to be: of new memory both, one after the other. The memory
/// has room for blocks.
void write_head(std::span<std::byte> memory);

}  // namespace orcd::net
