#include "app/decoder/decode_file.hpp"

#include <utility>

namespace orcd::app {
namespace {

using engine::image_format;
using engine::result;

/// Laid over white: equal to Pillow's alpha_composite.
engine::picture over_white(const engine::image_header& header, decoded_rows rows) {
  engine::picture out{header.width, header.height, {}};
  if (rows.channels == 3) {
    out.rgb = std::move(rows.values);
    return out;
  }
  const std::size_t count = std::size_t{header.width} * header.height;
  out.rgb.resize(count * 3);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* const from = rows.values.data() + i * 4;
    const std::uint32_t alpha = from[3];
    for (std::size_t c = 0; c < 3; ++c)
      out.rgb[i * 3 + c] = static_cast<std::uint8_t>((from[c] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
  return out;
}

/// EXIF's orientations: 1 as it is, 2 mirrored left to right, 3 turned by half, 4 mirrored top to bottom;
/// from 5 on rows are columns.
engine::picture turned(engine::picture from, std::uint32_t orientation) {
  if (orientation <= 1) return from;
  const bool sideways = orientation >= 5;
  engine::picture out{sideways ? from.height : from.width, sideways ? from.width : from.height, {}};
  out.rgb.resize(from.rgb.size());
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  for (std::uint32_t y = 0; y < out.height; ++y) {
    for (std::uint32_t x = 0; x < out.width; ++x) {
      const std::uint32_t along = sideways ? y : x, down = sideways ? x : y;
      const std::uint32_t column = from_right ? from.width - 1 - along : along;
      const std::uint32_t row = from_bottom ? from.height - 1 - down : down;
      for (std::size_t c = 0; c < 3; ++c)
        out.rgb[(std::size_t{y} * out.width + x) * 3 + c] =
            from.rgb[(std::size_t{row} * from.width + column) * 3 + c];
    }
  }
  return out;
}

result<decoded_rows> decode_rows(std::span<const std::byte> file, const engine::image_header& header) {
  switch (header.format) {
    case image_format::jpeg: return decode_jpeg(file, header);
    case image_format::png: return decode_png(file, header);
    case image_format::webp: break;
  }
  return decode_webp(file, header);
}

}  // namespace

result<engine::picture> decode_file(std::span<const std::byte> file, std::uint64_t pixels_max) {
  const auto header = engine::read_image_header(file, pixels_max);
  if (!header) return header.error();
  auto rows = decode_rows(file, *header);
  if (!rows) return rows.error();
  return turned(over_white(*header, std::move(*rows)), header->orientation);
}

}  // namespace orcd::app
