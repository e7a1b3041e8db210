// A safetensors file, mapped and validated once: an 8-byte length, a JSON header, then the tensors' bytes.
// Everything after open() is lookups in bounds-checked views; immutable, any thread. Strict: offsets must fit
// type and shape, and the tensors must cover the data without a gap or an overlap, as the format asks.
// Source: the safetensors format as its README describes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/gguf/mapped_file.hpp"
#include "engine/safetensors/safetensor.hpp"

namespace orcd::engine {

class safetensors_file {
 public:
  /// Errors (model_load_failed) name the file, the tensor, the value and the limit.
  [[nodiscard]] static result<safetensors_file> open(const std::string& path, const safetensors_limits& = {});
  /// An image in memory that outlives the result (tests, fuzzing).
  [[nodiscard]] static result<safetensors_file> parse(std::span<const std::byte> image, std::string name,
                                                      const safetensors_limits& = {});

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::span<const std::byte> image() const noexcept { return image_; }
  /// By offset, ascending.
  [[nodiscard]] std::span<const safetensor> tensors() const noexcept { return tensors_; }
  /// nullptr when absent.
  [[nodiscard]] const safetensor* find(std::string_view name) const noexcept;
  /// The tensor that begins there and has bytes; nullptr when there is none.
  [[nodiscard]] const safetensor* at_offset(std::uint64_t offset) const noexcept;
  [[nodiscard]] std::span<const std::byte> bytes_of(const safetensor& tensor) const noexcept {
    return image_.subspan(tensor.offset, tensor.bytes);
  }
  /// An error when the file was cut or written to since open(): see mapped_file.
  [[nodiscard]] result<void> check_intact() const;

 private:
  safetensors_file() = default;

  std::string name_;
  std::optional<mapped_file> mapping_;  ///< not of an image in memory
  std::span<const std::byte> image_;
  std::vector<safetensor> tensors_;
  std::vector<std::uint32_t> by_name_;
};

}  // namespace orcd::engine
