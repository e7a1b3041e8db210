// One tensor of a safetensors file, the types that it may have, and what a file is held to.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace orcd::engine {

enum class safetensor_type {
  boolean,
  u8,
  i8,
  f8_e4m3,
  f8_e5m2,
  i16,
  u16,
  f16,
  bf16,
  i32,
  u32,
  f32,
  i64,
  u64,
  f64
};

/// "BF16".
[[nodiscard]] std::string_view to_string(safetensor_type type) noexcept;
[[nodiscard]] std::optional<safetensor_type> safetensor_type_named(std::string_view name) noexcept;
/// Of one element.
[[nodiscard]] std::uint64_t bytes_of(safetensor_type type) noexcept;

struct safetensors_limits {
  std::uint64_t header_bytes = 100'000'000;  ///< the format's own
  std::size_t tensors = 65'536;
  std::size_t name_bytes = 256;
  static constexpr std::size_t dims = 8;
};

struct safetensor {
  std::string name;
  safetensor_type type = safetensor_type::f32;
  std::uint32_t dims = 0;
  std::array<std::uint64_t, safetensors_limits::dims> shape{};  ///< slowest first, `dims` of them
  std::uint64_t offset = 0;                                     ///< of the first byte, from the file's begin
  std::uint64_t bytes = 0;
};

}  // namespace orcd::engine
