// A tensor's place in a mapped model file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/gguf/ggml_type.hpp"

namespace orcd::engine {

/// A non-owning view; valid while the gguf_file lives. Dimensions are in GGUF order, fastest first:
/// a matrix is extents = {cols, rows, 1, 1} with y[r] = sum_c W[r][c] * x[c]; stacked experts are
/// {cols, rows, experts, 1}. Every extent is at least 1.
struct tensor_view {
  std::string_view name;
  ggml_type type = ggml_type::f32;
  std::uint32_t dims = 1;  ///< dimensions the file declares, 1..4
  std::array<std::uint64_t, 4> extents{1, 1, 1, 1};
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;        ///< exact payload bytes, padding excluded
  std::uint64_t file_offset = 0;  ///< of the payload, from the start of its part
  std::uint32_t part = 0;         ///< index of the split part that holds it
  float factor = 1.0F;            ///< multiplies every value: of the trailer, and of a tensor beside it
  /// Of a stack: one more factor for each of its matrices, [experts]; null: none. Lives as long as the model.
  const float* factors = nullptr;
  /// Every value is a code of -1, 0 or 1 times this (`factor` included), and products take int8 activations;
  /// nullopt where they do not. Set by gpu/plan/ternary_weights.hpp.
  std::optional<float> code_scale{};

  [[nodiscard]] std::uint64_t cols() const noexcept { return extents[0]; }
  [[nodiscard]] std::uint64_t rows() const noexcept { return extents[1]; }
  [[nodiscard]] std::uint64_t experts() const noexcept { return extents[2]; }
  [[nodiscard]] std::uint64_t elements() const noexcept {
    return extents[0] * extents[1] * extents[2] * extents[3];
  }
  /// Multiplies every value of one matrix of a stack.
  [[nodiscard]] float factor_of(std::uint64_t expert) const noexcept {
    return factors == nullptr ? factor : factor * factors[expert];
  }
  [[nodiscard]] explicit operator bool() const noexcept { return data != nullptr; }
};

}  // namespace orcd::engine
