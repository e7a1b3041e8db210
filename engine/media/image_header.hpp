// What the beginning of a picture's file says, before a pixel of it is decoded: which format it is, by its
// content, and how large. Files of several frames are refused. Pure; reads nothing beyond the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::engine {

enum class image_format { jpeg, png, webp };

[[nodiscard]] constexpr std::string_view to_string(image_format format) noexcept {
  return format == image_format::jpeg ? "JPEG" : format == image_format::png ? "PNG" : "WebP";
}

struct image_header {
  image_format format = image_format::jpeg;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  /// By EXIF, 1 to 8: how the picture is to be turned; from 5 on width and height change places.
  std::uint32_t orientation = 1;
  [[nodiscard]] std::uint64_t pixels() const noexcept { return std::uint64_t{width} * height; }
};

/// Errors: invalid_request; the message has no path.
[[nodiscard]] result<image_header> read_image_header(std::span<const std::byte> file);
/// The same of a file that may be decoded: its sides pass check_picture_size(), and it has no more pixels.
[[nodiscard]] result<image_header> read_image_header(std::span<const std::byte> file,
                                                     std::uint64_t pixels_max);

}  // namespace orcd::engine
