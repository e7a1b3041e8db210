// Integer types that every layer shares.
#pragma once

#include <cstdint>
#include <limits>

namespace orcd::engine {

/// Index of a token in the model's vocabulary. Signed because GGUF files store special ids so.
using token_id = std::int32_t;

/// Stands in a sequence's tokens where the row of a medium does: equal to no token of any vocabulary.
inline constexpr token_id media_token = std::numeric_limits<token_id>::min();

/// Index of a sequence slot in an accelerator: 0 .. slots-1.
enum class slot_id : std::uint32_t {};

/// Index of a page of an accelerator's KV cache: 0 .. pages-1. As wide as in the device's page tables.
using kv_page = std::int32_t;

}  // namespace orcd::engine
