#include "engine/media/image_header.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "engine/media/prepare_picture.hpp"

namespace orcd::engine {
namespace {

using bytes = std::span<const std::byte>;

error refuse(std::string text) {
  return {errc::invalid_request, std::move(text)};
}

error truncated(image_format format) {
  return refuse("is a " + std::string(to_string(format)) + " file that ends before its header does");
}

std::uint32_t at(bytes from, std::size_t index) noexcept {
  return std::to_integer<std::uint32_t>(from[index]);
}

std::uint32_t big16(bytes from, std::size_t index) noexcept {
  return at(from, index) << 8U | at(from, index + 1);
}

std::uint32_t big32(bytes from, std::size_t index) noexcept {
  return big16(from, index) << 16U | big16(from, index + 2);
}

std::uint32_t little16(bytes from, std::size_t index) noexcept {
  return at(from, index) | at(from, index + 1) << 8U;
}

std::uint32_t little24(bytes from, std::size_t index) noexcept {
  return little16(from, index) | at(from, index + 2) << 16U;
}

std::uint32_t little32(bytes from, std::size_t index) noexcept {
  return little16(from, index) | little16(from, index + 2) << 16U;
}

bool begins_with(bytes from, std::string_view text) noexcept {
  return from.size() >= text.size() &&
         std::equal(text.begin(), text.end(), from.begin(),
                    [](char c, std::byte b) { return static_cast<std::byte>(c) == b; });
}

/// The orientation that a TIFF structure's first directory says; 1 where it says none that there is.
std::uint32_t orientation_of(bytes tiff) noexcept {
  constexpr std::size_t entry_bytes = 12;
  constexpr std::uint32_t orientation_tag = 0x0112;
  constexpr std::uint32_t short_type = 3;
  const bool little = begins_with(tiff, std::string_view("II\x2A\0", 4));
  if ((!little && !begins_with(tiff, std::string_view("MM\0\x2A", 4))) || tiff.size() < 8) return 1;
  const auto get16 = [&](std::size_t i) { return little ? little16(tiff, i) : big16(tiff, i); };
  const std::size_t first = little ? little32(tiff, 4) : big32(tiff, 4);
  if (first > tiff.size() || tiff.size() - first < 2) return 1;
  const std::size_t count = get16(first);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t entry = first + 2 + i * entry_bytes;
    if (entry > tiff.size() || tiff.size() - entry < entry_bytes) return 1;
    if (get16(entry) != orientation_tag || get16(entry + 2) != short_type) continue;
    const std::uint32_t value = get16(entry + 8);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

bool is_frame(std::uint32_t marker) noexcept {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

result<image_header> read_jpeg(bytes file) {
  image_header out{image_format::jpeg};
  std::size_t next = 2;
  while (true) {
    while (next < file.size() && at(file, next) == 0xFF) ++next;
    if (next >= file.size() || at(file, next - 1) != 0xFF) return truncated(out.format);
    const std::uint32_t marker = at(file, next++);
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) continue;
    if (file.size() - next < 2) return truncated(out.format);
    const std::size_t length = big16(file, next);
    if (length < 2 || length > file.size() - next) return truncated(out.format);
    const bytes segment = file.subspan(next + 2, length - 2);
    if (marker == 0xE1 && begins_with(segment, std::string_view("Exif\0\0", 6)))
      out.orientation = orientation_of(segment.subspan(6));
    if (marker == 0xE2 && begins_with(segment, std::string_view("MPF\0", 4)))
      return refuse("is a JPEG file of several pictures (MPO), which is not supported");
    if (is_frame(marker)) {
      if (segment.size() < 6) return truncated(out.format);
      if (at(segment, 0) != 8)
        return refuse("is a JPEG file of " + std::to_string(at(segment, 0)) +
                      " bits a sample; 8 are supported");
      out.height = big16(segment, 1);
      out.width = big16(segment, 3);
      return out;
    }
    if (marker == 0xDA || marker == 0xD9) return refuse("is a JPEG file without a frame");
    next += length;
  }
}

/// Chunks before the pixels say whether there are several frames; EXIF may stand behind them.
result<image_header> read_png(bytes file) {
  constexpr std::size_t signature = 8, frame = 12;
  image_header out{image_format::png};
  if (file.size() < signature + frame + 13) return truncated(out.format);
  if (big32(file, 8) != 13 || !begins_with(file.subspan(12), "IHDR"))
    return refuse("is a PNG file that does not begin with its header");
  out.width = big32(file, 16);
  out.height = big32(file, 20);
  for (std::size_t next = signature; file.size() - next >= frame;) {
    const std::size_t length = big32(file, next);
    if (length > file.size() - next - frame) break;
    const bytes chunk = file.subspan(next + 4, 4 + length);
    if (begins_with(chunk, "acTL")) return refuse("is an animated PNG file, which is not supported");
    if (begins_with(chunk, "eXIf")) out.orientation = orientation_of(chunk.subspan(4));
    next += frame + length;
  }
  return out;
}

/// The size in the first chunk of pixels, with or without loss.
result<void> read_webp_frame(bytes chunk, bool lossless, image_header& out) {
  if (lossless) {
    if (chunk.size() < 5) return truncated(out.format);
    if (at(chunk, 0) != 0x2F) return refuse("is a WebP file without a frame");
    const std::uint32_t bits = little32(chunk, 1);
    out.width = (bits & 0x3FFF) + 1;
    out.height = (bits >> 14U & 0x3FFF) + 1;
    return {};
  }
  if (chunk.size() < 10) return truncated(out.format);
  if (at(chunk, 3) != 0x9D || at(chunk, 4) != 0x01 || at(chunk, 5) != 0x2A)
    return refuse("is a WebP file without a frame");
  out.width = little16(chunk, 6) & 0x3FFF;
  out.height = little16(chunk, 8) & 0x3FFF;
  return {};
}

result<image_header> read_webp(bytes file) {
  constexpr std::size_t riff = 12, head = 8;
  constexpr std::uint32_t animated = 0x02;
  image_header out{image_format::webp};
  bool canvas = false, frame = false;
  for (std::size_t next = riff; next < file.size() && file.size() - next >= head;) {
    const std::size_t length = little32(file, next + 4);
    const bytes name = file.subspan(next, 4);
    const bytes chunk = file.subspan(next + head, std::min(length, file.size() - next - head));
    if (begins_with(name, "VP8X")) {
      if (chunk.size() < 10) return truncated(out.format);
      if ((at(chunk, 0) & animated) != 0) return refuse("is an animated WebP file, which is not supported");
      out.width = little24(chunk, 4) + 1;
      out.height = little24(chunk, 7) + 1;
      canvas = true;
    } else if (begins_with(name, "ANIM") || begins_with(name, "ANMF")) {
      return refuse("is an animated WebP file, which is not supported");
    } else if (!frame && (begins_with(name, "VP8 ") || begins_with(name, "VP8L"))) {
      image_header own{image_format::webp};
      if (const auto read = read_webp_frame(chunk, begins_with(name, "VP8L"), own); !read)
        return read.error();
      if (canvas && (own.width != out.width || own.height != out.height))
        return refuse("is a WebP file whose frame has another size than its canvas");
      out.width = own.width;
      out.height = own.height;
      frame = true;
    } else if (begins_with(name, "EXIF")) {
      const bool prefixed = begins_with(chunk, std::string_view("Exif\0\0", 6));
      out.orientation = orientation_of(prefixed ? chunk.subspan(6) : chunk);
    }
    const std::size_t padded = length + length % 2;
    if (padded > file.size() - next - head) break;
    next += head + padded;
  }
  if (!frame) return refuse("is a WebP file without a frame");
  return out;
}

/// A name for what is taken for no picture.
std::optional<std::string_view> known_other(bytes file) noexcept {
  if (begins_with(file, "GIF8")) return "GIF";
  if (begins_with(file, "BM")) return "BMP";
  if (begins_with(file, std::string_view("II\x2A\0", 4)) ||
      begins_with(file, std::string_view("MM\0\x2A", 4)))
    return "TIFF";
  if (file.size() >= 12 && begins_with(file.subspan(4), "ftyp")) return "HEIF, AVIF or MP4";
  if (begins_with(file, "<svg") || begins_with(file, "<?xml")) return "SVG or XML";
  if (begins_with(file, "%PDF")) return "PDF";
  return std::nullopt;
}

}  // namespace

result<image_header> read_image_header(bytes file) {
  if (file.empty()) return refuse("has no bytes");
  if (begins_with(file, "\xFF\xD8\xFF")) return read_jpeg(file);
  if (begins_with(file, "\x89PNG\r\n\x1A\n")) return read_png(file);
  if (begins_with(file, "RIFF") && file.size() >= 12 && begins_with(file.subspan(8), "WEBP"))
    return read_webp(file);
  if (const auto other = known_other(file))
    return refuse("is a " + std::string(*other) + " file; JPEG, PNG and WebP are supported");
  return refuse("is no picture that is known; JPEG, PNG and WebP are supported");
}

result<image_header> read_image_header(bytes file, std::uint64_t pixels_max) {
  auto header = read_image_header(file);
  if (!header) return header;
  if (const auto sized = check_picture_size({header->width, header->height}); !sized) return sized.error();
  if (header->pixels() <= pixels_max) return header;
  return refuse("has " + std::to_string(header->pixels()) + " pixels; the limit is " +
                std::to_string(pixels_max));
}

}  // namespace orcd::engine
