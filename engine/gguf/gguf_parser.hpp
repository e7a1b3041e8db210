// Parses one GGUF image (a whole file, or one part of a split model) into views, enforcing every limit before
// it allocates. Source: GGUF v3.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/byte_cursor.hpp"
#include "engine/gguf/gguf_values.hpp"
#include "engine/gguf/tensor_view.hpp"

namespace orcd::engine {

/// One part. Views point into the image; tensors have part = 0.
struct parsed_part {
  std::uint32_t version = 0;
  std::uint32_t alignment = 32;
  std::vector<gguf_entry> entries;
  std::vector<tensor_view> tensors;
};

/// Checks everything that can be checked in one part alone; not names that occur in two parts.
[[nodiscard]] result<parsed_part> parse_part(std::span<const std::byte> image, std::string_view file,
                                             const gguf_limits& limits);

/// Reads `count` key-value pairs at the cursor.
[[nodiscard]] std::vector<gguf_entry> read_entries(byte_cursor& cursor, std::uint64_t count,
                                                   const gguf_limits& limits);

/// Reads `count` tensor infos at the cursor and resolves them against the data section that follows
/// them, aligned to `alignment`.
[[nodiscard]] std::vector<tensor_view> read_tensors(byte_cursor& cursor, std::span<const std::byte> image,
                                                    std::uint64_t count, std::uint32_t alignment,
                                                    const gguf_limits& limits);

/// The name of a value type for messages; "unknown" for an id that the format does not define.
[[nodiscard]] std::string_view value_type_name(std::uint32_t id) noexcept;

}  // namespace orcd::engine
