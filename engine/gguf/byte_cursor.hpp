// The only place that turns bytes of a model file into values: every read is checked against the bytes that
// are left, and sums and products of numbers from the file are checked for overflow.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "engine/base/error.hpp"

namespace orcd::engine {

static_assert(std::endian::native == std::endian::little, "GGUF is little-endian and read in place");

/// a * b; nullopt when it does not fit.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_multiply(std::uint64_t a,
                                                                      std::uint64_t b) noexcept {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// `value` rounded up to a multiple of `alignment` (a power of two); nullopt when it does not fit.
[[nodiscard]] constexpr std::optional<std::uint64_t> checked_align(std::uint64_t value,
                                                                   std::uint64_t alignment) noexcept {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(value, alignment - 1, &sum)) return std::nullopt;
  return sum & ~(alignment - 1);
}

/// Text of a file for a message: quoted, at most 80 bytes, everything unprintable as \xNN.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// A model_load_failed error "FILE: FIELD at offset N: TEXT".
[[nodiscard]] error file_error(std::string_view file, std::string_view field, std::uint64_t offset,
                               std::string_view text);

/// Reads forward through an image. After the first failure all reads return zeros, so that a caller may read
/// a whole record and then check ok(). A loop checks ok() in every iteration.
class byte_cursor {
 public:
  /// `file` is the image's name for messages and must outlive the cursor.
  byte_cursor(std::span<const std::byte> image, std::string_view file) : image_(image), file_(file) {}

  /// The subject of the following reads, for messages: "key", "general.name". Empty = the header.
  void set_subject(std::string_view kind, std::string_view name) noexcept {
    subject_kind_ = kind;
    subject_name_ = name;
  }

  template <class T>
  T read(std::string_view field) {
    static_assert(std::is_arithmetic_v<T>);
    T value{};
    if (const auto raw = take(sizeof(T), field); raw.size() == sizeof(T))
      std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  /// u64 length, then that many bytes; at most `limit` of them.
  std::string_view read_string(std::string_view field, std::uint64_t limit);

  /// The next `count` bytes.
  std::span<const std::byte> take(std::uint64_t count, std::string_view field);

  /// Records the first failure: "FILE: FIELD of KIND NAME at offset N: TEXT".
  void fail(std::string_view field, std::uint64_t offset, std::string_view text);

  [[nodiscard]] bool ok() const noexcept { return !failure_.has_value(); }
  /// Only after a failure.
  [[nodiscard]] const error& failure() const noexcept { return *failure_; }
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::uint64_t remaining() const noexcept { return image_.size() - offset_; }
  [[nodiscard]] std::string_view file() const noexcept { return file_; }

 private:
  std::span<const std::byte> image_;
  std::string_view file_;
  std::string_view subject_kind_;
  std::string_view subject_name_;
  std::uint64_t offset_ = 0;  // never more than image_.size()
  std::optional<error> failure_;
};

}  // namespace orcd::engine
