// A model given as a folder: the file in it, and the header of this project's own model files. File system
// reads only; any thread. Errors (model_load_failed) name the folder or the file, what is there and what must
// be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/gguf/location.hpp"

namespace orcd::engine {

/// The name of a model file behind a header, in a folder that the Trillim SDK prepares.
inline constexpr std::string_view wrapped_model_name = "qmodel.tensors";

/// What messages say of a file or a folder that is a LoRA adapter where a model must be.
inline constexpr std::string_view is_an_adapter =
    "is a LoRA adapter, and no model; a worker takes it by --lora, beside its model";

/// The model file of a folder: its qmodel.tensors, else its only .gguf (of a split model the first part).
/// What is no path of a folder is returned as it is.
[[nodiscard]] result<model_location> find_model_file(const model_location& location);

/// What a model file's image holds.
struct model_image {
  std::span<const std::byte> gguf;
  std::uint32_t architecture = 0;  ///< the header's: 1 BitNet, 2 Llama; 0 = there is no header
};

/// Takes off the header of 256 bytes that begins with TRLM, where there is one (docs/pipe.md). `name` is the
/// file's name in messages. An adapter (TRLA) is refused; what has another header is returned
/// as it is.
[[nodiscard]] result<model_image> unwrap_model(std::span<const std::byte> image, std::string_view name);

/// Whether a header's architecture is that of the GGUF behind it, general.architecture.
[[nodiscard]] bool same_architecture(std::uint32_t header, std::string_view gguf) noexcept;

}  // namespace orcd::engine
