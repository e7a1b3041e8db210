// The metadata of a GGUF file as values, and the limits that a file is held to. Views point into the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

namespace orcd::engine {

/// GGUF metadata value types, by file id.
enum class gguf_value_type : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};

/// An array as it is in the file. Elements are unaligned: read them through the typed getters.
struct gguf_array {
  gguf_value_type element = gguf_value_type::u8;
  std::uint64_t count = 0;
  std::span<const std::byte> payload;
};

/// One scalar, string or array. Integers are widened; the declared type is kept beside them.
struct gguf_value {
  gguf_value_type type = gguf_value_type::u8;
  std::variant<std::uint64_t, std::int64_t, double, bool, std::string_view, gguf_array> value;
};

struct gguf_entry {
  std::string_view key;
  gguf_value value;
};

/// Limits that are checked before anything is allocated; a file over one is refused with the limit in the
/// message.
struct gguf_limits {
  std::uint64_t tensors = 10'000;
  std::uint64_t entries = 4'096;
  std::uint64_t string_bytes = 64ull << 20;
  std::uint64_t name_bytes = 63;
  std::uint64_t key_bytes = 65'535;
};

}  // namespace orcd::engine
