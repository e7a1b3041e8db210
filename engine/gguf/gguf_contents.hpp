// The contents of a gguf_file. Private to the sources of gguf_file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/file_watch.hpp"
#include "engine/gguf/gguf_values.hpp"
#include "engine/gguf/location.hpp"
#include "engine/gguf/mapped_file.hpp"
#include "engine/gguf/tensor_view.hpp"

namespace orcd::engine {

struct gguf_contents {
  std::string location;
  std::vector<mapped_file> mappings;  ///< empty for an image in memory
  std::unique_ptr<file_watch> watch;  ///< of all mappings, in their order; null for an image in memory
  std::vector<std::span<const std::byte>> images;
  std::uint32_t version = 0;
  std::uint32_t alignment = 32;
  std::uint32_t header_architecture = 0;  ///< of the header before the first part; 0 = there is none
  std::vector<gguf_entry> entries;
  std::vector<tensor_view> tensors;
  std::unordered_map<std::string_view, std::uint32_t> entry_index;
  std::unordered_map<std::string_view, std::uint32_t> tensor_index;
};

/// Adds one part's metadata (of the first part only) and tensors; names must be new.
[[nodiscard]] result<void> add_part(gguf_contents& to, std::span<const std::byte> image,
                                    const std::string& name, const gguf_limits& limits);

/// Maps and adds the parts after the first, if its metadata say that there are more.
[[nodiscard]] result<void> add_siblings(gguf_contents& to, const model_location& first,
                                        const gguf_limits& limits);

/// "FILE: TEXT" as a model_load_failed error.
[[nodiscard]] error model_error(std::string_view file, std::string_view text);

}  // namespace orcd::engine
