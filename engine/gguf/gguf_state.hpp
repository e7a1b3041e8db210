// What a gguf_file holds. Shared by the sources of gguf_file only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/gguf/gguf_file.hpp"
#include "engine/gguf/mapped_file.hpp"

namespace orcd::engine {

struct gguf_contents {
  std::string location;
  std::vector<mapped_file> mappings;  ///< empty for an image in memory
  std::vector<std::span<const std::byte>> images;
  std::uint32_t version = 0;
  std::uint32_t alignment = 32;
  std::vector<gguf_entry> entries;
  std::vector<tensor_view> tensors;
  std::unordered_map<std::string_view, std::uint32_t> entry_index;
  std::unordered_map<std::string_view, std::uint32_t> tensor_index;
};

struct gguf_file::state : gguf_contents {};

/// Adds one part's metadata (of the first part only) and tensors; names must be new.
[[nodiscard]] result<void> add_part(gguf_contents& to, std::span<const std::byte> image,
                                    const std::string& name, const gguf_limits& limits);

/// Maps and adds the parts after the first, if its metadata say that there are any.
[[nodiscard]] result<void> add_siblings(gguf_contents& to, const model_location& first,
                                        const gguf_limits& limits);

/// "FILE: TEXT" as a model_load_failed error.
[[nodiscard]] error model_error(std::string_view file, std::string_view text);

}  // namespace orcd::engine
