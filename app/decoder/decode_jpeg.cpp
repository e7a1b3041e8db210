#include <csetjmp>
#include <cstdio>
// libjpeg's header needs stdio's names before it.
#include <jerror.h>
#include <jpeglib.h>

#include <string>
#include <utility>

#include "app/decoder/decode_file.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;

/// A progressive file may say again and again what takes as long to read as all of its pixels.
constexpr int scans_max = 256;

struct failure {
  jpeg_error_mgr manager{};  // first: libjpeg hands out its address
  std::jmp_buf back{};
  char words[JMSG_LENGTH_MAX] = {};
};

[[noreturn]] void fail(j_common_ptr state) {
  auto* const to = reinterpret_cast<failure*>(state->err);
  (*state->err->format_message)(state, to->words);
  std::longjmp(to->back, 1);
}

void stay_silent(j_common_ptr) {}

/// Bytes that the file does not have are an end mark to libjpeg, which would make grey of the rest.
boolean refuse_more(j_decompress_ptr state) {
  ERREXIT(state, JERR_INPUT_EOF);
  return FALSE;
}

void count_scans(j_common_ptr state) {
  if (reinterpret_cast<j_decompress_ptr>(state)->input_scan_number > scans_max)
    ERREXIT(state, JERR_BAD_STATE);
}

/// Source: Pillow's cmyk2rgb, for values that are stored inverted, as Adobe's are.
void cmyk_to_rgb(const std::uint8_t* from, std::uint8_t* to, std::uint32_t width) {
  for (std::uint32_t x = 0; x < width; ++x, from += 4, to += 3) {
    const std::uint32_t light = from[3];
    for (int c = 0; c < 3; ++c) {
      const std::uint32_t product = (255U - from[c]) * light + 128;
      to[c] = static_cast<std::uint8_t>(light - (((product >> 8U) + product) >> 8U));
    }
  }
}

/// Everything that a jump would leave behind belongs to the caller.
/// Apart from the function with setjmp(), whose registers a jump back may have changed.
[[gnu::noinline]] bool read_rows(std::span<const std::byte> file, const engine::image_header& header,
                                 jpeg_decompress_struct& state, jpeg_progress_mgr& progress,
                                 std::vector<std::uint8_t>& line, std::vector<std::uint8_t>& out) {
  jpeg_mem_src(&state, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  state.src->fill_input_buffer = refuse_more;
  state.progress = &progress;
  progress.progress_monitor = count_scans;
  jpeg_read_header(&state, TRUE);
  const bool four = state.jpeg_color_space == JCS_CMYK || state.jpeg_color_space == JCS_YCCK;
  state.out_color_space = four ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&state);
  if (state.output_width != header.width || state.output_height != header.height) return false;
  line.resize(std::size_t{header.width} * 4);
  out.resize(std::size_t{header.width} * header.height * 3);
  while (state.output_scanline < state.output_height) {
    std::uint8_t* const to = out.data() + std::size_t{state.output_scanline} * header.width * 3;
    JSAMPROW row = four ? line.data() : to;
    jpeg_read_scanlines(&state, &row, 1);
    if (four) cmyk_to_rgb(line.data(), to, header.width);
  }
  jpeg_finish_decompress(&state);
  return true;
}

}  // namespace

engine::result<decoded_rows> decode_jpeg(std::span<const std::byte> file,
                                         const engine::image_header& header) {
  jpeg_decompress_struct state{};
  jpeg_progress_mgr progress{};
  failure failed;
  decoded_rows out;
  std::vector<std::uint8_t> line;
  state.err = jpeg_std_error(&failed.manager);
  failed.manager.error_exit = fail;
  failed.manager.output_message = stay_silent;
  if (setjmp(failed.back) != 0) {
    jpeg_destroy_decompress(&state);
    return error(errc::invalid_request,
                 "is a JPEG file that cannot be decoded: " + std::string(failed.words));
  }
  jpeg_create_decompress(&state);
  const bool good = read_rows(file, header, state, progress, line, out.values);
  jpeg_destroy_decompress(&state);
  if (!good) return error(errc::invalid_request, "is a JPEG file whose frames differ in size");
  return out;
}

}  // namespace orcd::app
