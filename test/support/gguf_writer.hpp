// Writes GGUF v3 images in memory for tests: metadata of every type, tensors with given bytes, and,
// where a test asks for it, values that no honest writer would produce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/gguf/ggml_type.hpp"
#include "engine/gguf/gguf_file.hpp"

namespace orcd::test {

using bytes = std::vector<std::byte>;

/// Appends the little-endian image of a number.
template <class T>
void append_number(bytes& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  const std::size_t at = out.size();
  out.resize(at + sizeof(T));
  std::memcpy(out.data() + at, &value, sizeof(T));
}

/// Appends a GGUF string: u64 length, then the bytes.
void append_string(bytes& out, std::string_view text);

struct written_entry {
  std::string key;
  std::uint32_t type = 0;  ///< a gguf_value_type, or any id
  bytes payload;
};

struct written_tensor {
  std::string name;
  std::vector<std::uint64_t> extents;  ///< fastest first
  std::uint32_t type = 0;              ///< a ggml_type, or any id
  bytes data;
  std::optional<std::uint64_t> offset;  ///< instead of the next aligned one
};

/// Header fields and layout that replace the honest ones.
struct gguf_faults {
  std::optional<std::string> magic;
  std::optional<std::uint32_t> version;
  std::optional<std::uint64_t> tensor_count;
  std::optional<std::uint64_t> entry_count;
  std::optional<std::uint64_t> layout_alignment;  ///< used for the data, whatever the metadata say
  bool no_padding_at_end = false;
};

class gguf_writer {
 public:
  /// Scalars: the stored type follows the C++ type (bool, (u)int8..64_t, float, double).
  template <class T>
  gguf_writer& add(std::string key, T value);
  gguf_writer& add(std::string key, std::string_view value);
  gguf_writer& add(std::string key, const char* value) {
    return add(std::move(key), std::string_view(value));
  }
  gguf_writer& add(std::string key, const std::string& value) {
    return add(std::move(key), std::string_view(value));
  }
  gguf_writer& add(std::string key, const std::vector<std::string>& values);
  template <class T>
  gguf_writer& add(std::string key, const std::vector<T>& values);
  /// Any type id and any payload, written as they are.
  gguf_writer& add_raw(std::string key, std::uint32_t type, bytes payload);

  gguf_writer& add_tensor(std::string name, std::vector<std::uint64_t> extents, engine::ggml_type type,
                          bytes data);
  gguf_writer& add_tensor(written_tensor tensor);

  void remove(std::string_view key);
  void remove_tensor(std::string_view name);
  /// nullptr when absent.
  written_tensor* find_tensor(std::string_view name);

  /// The complete image.
  [[nodiscard]] bytes build() const;

  gguf_faults faults;
  std::uint32_t alignment = 32;  ///< other than 32, general.alignment is written too
  std::vector<written_entry> entries;
  std::vector<written_tensor> tensors;
};

/// The file id of the C++ type.
template <class T>
constexpr engine::gguf_value_type value_type_of() {
  using enum engine::gguf_value_type;
  if constexpr (std::is_same_v<T, bool>)
    return boolean;
  else if constexpr (std::is_same_v<T, float>)
    return f32;
  else if constexpr (std::is_same_v<T, double>)
    return f64;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return u8;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return i8;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return u16;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return i16;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return u32;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return i32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return u64;
  else {
    static_assert(std::is_same_v<T, std::int64_t>, "no GGUF type for this");
    return i64;
  }
}

template <class T>
gguf_writer& gguf_writer::add(std::string key, T value) {
  bytes payload;
  append_number(payload, value);
  return add_raw(std::move(key), static_cast<std::uint32_t>(value_type_of<T>()), std::move(payload));
}

template <class T>
gguf_writer& gguf_writer::add(std::string key, const std::vector<T>& values) {
  bytes payload;
  append_number(payload, static_cast<std::uint32_t>(value_type_of<T>()));
  append_number(payload, static_cast<std::uint64_t>(values.size()));
  for (const T value : values) append_number(payload, value);
  return add_raw(std::move(key), static_cast<std::uint32_t>(engine::gguf_value_type::array),
                 std::move(payload));
}

/// Writes an image to a file; throws std::runtime_error when it cannot.
void write_file(const std::string& path, std::span<const std::byte> image);

}  // namespace orcd::test
