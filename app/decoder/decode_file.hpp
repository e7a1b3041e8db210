// Pixels of JPEG, PNG and WebP files, by libjpeg-turbo, libpng and libwebp. Runs in a process of its own,
// which what the bytes do to these libraries ends at worst.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/error.hpp"
#include "engine/media/image_header.hpp"
#include "engine/media/picture.hpp"

namespace orcd::app {

/// 8-bit RGB, turned by EXIF, over white; refused where its header says more than `pixels_max` pixels.
/// Errors: invalid_request.
[[nodiscard]] engine::result<engine::picture> decode_file(std::span<const std::byte> file,
                                                          std::uint64_t pixels_max);

// The formats, each for itself: rows as they lie in the file, of `channels` bytes a pixel (3 or 4).
struct decoded_rows {
  std::uint32_t channels = 3;
  std::vector<std::uint8_t> values;
};
[[nodiscard]] engine::result<decoded_rows> decode_jpeg(std::span<const std::byte> file,
                                                       const engine::image_header& header);
[[nodiscard]] engine::result<decoded_rows> decode_png(std::span<const std::byte> file,
                                                      const engine::image_header& header);
[[nodiscard]] engine::result<decoded_rows> decode_webp(std::span<const std::byte> file,
                                                       const engine::image_header& header);

}  // namespace orcd::app
