// The head of a GGUF v3 file: metadata, the names and places of tensors. Their bytes are written by whoever
// has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/ggml_type.hpp"

namespace orcd::app {

class gguf_header {
 public:
  void add(std::string_view key, std::uint32_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, std::string_view value);

  struct tensor {
    std::string name;
    std::vector<std::uint64_t> extents;  ///< fastest first
    engine::ggml_type type = engine::ggml_type::f32;
    std::uint64_t bytes = 0;
    std::uint64_t offset = 0;  ///< from the file's begin; known after build()
  };
  /// Rows must be whole blocks. Returns its number.
  std::size_t add_tensor(std::string name, std::vector<std::uint64_t> extents, engine::ggml_type type);
  [[nodiscard]] const tensor& at(std::size_t number) const noexcept { return tensors_[number]; }
  [[nodiscard]] std::span<const tensor> tensors() const noexcept { return tensors_; }

  /// The head's bytes; places the tensors.
  [[nodiscard]] std::vector<std::byte> build();
  /// Of the whole file; known after build().
  [[nodiscard]] std::uint64_t file_bytes() const noexcept { return file_bytes_; }

 private:
  std::vector<std::byte> entries_;
  std::uint64_t entry_count_ = 0;
  std::vector<tensor> tensors_;
  std::uint64_t file_bytes_ = 0;
};

}  // namespace orcd::app
