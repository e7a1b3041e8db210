#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>
#include <utility>

#include "app/decoder/decode_file.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;

struct reading {
  std::span<const std::byte> left;
  std::string words = {};
};

[[noreturn]] void fail(png_structp state, png_const_charp words) {
  static_cast<reading*>(png_get_error_ptr(state))->words = words;
  png_longjmp(state, 1);
}

void stay_silent(png_structp, png_const_charp) {}

void read_bytes(png_structp state, png_bytep to, std::size_t count) {
  auto& from = static_cast<reading*>(png_get_io_ptr(state))->left;
  if (count > from.size()) png_error(state, "the file is truncated");
  std::memcpy(to, from.data(), count);
  from = from.subspan(count);
}

/// Every kind of file becomes 8-bit RGB, with alpha where it has some.
void set_format(png_structp state, png_infop info) {
  const auto kind = png_get_color_type(state, info);
  if (png_get_bit_depth(state, info) == 16) png_set_strip_16(state);
  if (kind == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(state);
  if (kind == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(state, info) < 8)
    png_set_expand_gray_1_2_4_to_8(state);
  if (png_get_valid(state, info, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(state);
  if (kind == PNG_COLOR_TYPE_GRAY || kind == PNG_COLOR_TYPE_GRAY_ALPHA) png_set_gray_to_rgb(state);
  png_set_interlace_handling(state);
  png_read_update_info(state, info);
}

/// What a jump would leave behind belongs to the caller.
/// Apart from the function with setjmp(), whose registers a jump back may have changed.
[[gnu::noinline]] bool read_rows(png_structp state, png_infop info, const engine::image_header& header,
                                 decoded_rows& out, std::vector<png_bytep>& rows) {
  constexpr png_uint_32 side_max = 0x7FFFFFFF;
  constexpr std::size_t chunk_bytes_max = 8U << 20U;
  png_set_user_limits(state, side_max, side_max);
  png_set_chunk_malloc_max(state, chunk_bytes_max);
  png_set_chunk_cache_max(state, 128);
  png_read_info(state, info);
  if (png_get_image_width(state, info) != header.width || png_get_image_height(state, info) != header.height)
    return false;
  set_format(state, info);
  out.channels = png_get_channels(state, info);
  if (out.channels != 3 && out.channels != 4) png_error(state, "it has an unknown number of channels");
  const std::size_t row_bytes = std::size_t{header.width} * out.channels;
  out.values.resize(row_bytes * header.height);
  rows.resize(header.height);
  for (std::size_t y = 0; y < rows.size(); ++y) rows[y] = out.values.data() + y * row_bytes;
  png_read_image(state, rows.data());
  png_read_end(state, nullptr);
  return true;
}

}  // namespace

engine::result<decoded_rows> decode_png(std::span<const std::byte> file, const engine::image_header& header) {
  reading from{file};
  decoded_rows out;
  std::vector<png_bytep> rows;
  png_structp state = png_create_read_struct(PNG_LIBPNG_VER_STRING, &from, fail, stay_silent);
  if (state == nullptr) return error(errc::invalid_request, "is a PNG file for which there is no memory");
  png_infop info = png_create_info_struct(state);
  if (info == nullptr || setjmp(png_jmpbuf(state)) != 0) {
    png_destroy_read_struct(&state, &info, nullptr);
    return error(errc::invalid_request, "is a PNG file that cannot be decoded: " + from.words);
  }
  png_set_read_fn(state, &from, read_bytes);
  const bool good = read_rows(state, info, header, out, rows);
  png_destroy_read_struct(&state, &info, nullptr);
  if (!good) return error(errc::invalid_request, "is a PNG file whose headers differ in size");
  return out;
}

}  // namespace orcd::app
