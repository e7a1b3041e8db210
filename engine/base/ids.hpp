// Integer types that every layer shares.
#pragma once

#include <cstdint>

namespace orcd::engine {

/// Index of a token in the model's vocabulary. Signed because GGUF files store special ids so.
using token_id = std::int32_t;

/// Index of a sequence slot in an accelerator: 0 .. slots-1.
enum class slot_id : std::uint32_t {};

/// Index of a page of an accelerator's KV cache: 0 .. pages-1. As wide as in the device's page tables.
using kv_page = std::int32_t;

}  // namespace orcd::engine
