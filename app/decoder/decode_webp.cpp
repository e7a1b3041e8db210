#include <webp/decode.h>

#include <string>
#include <utility>

#include "app/decoder/decode_file.hpp"

namespace orcd::app {

engine::result<decoded_rows> decode_webp(std::span<const std::byte> file,
                                         const engine::image_header& header) {
  using engine::errc;
  using engine::error;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  WebPBitstreamFeatures facts{};
  if (WebPGetFeatures(bytes, file.size(), &facts) != VP8_STATUS_OK)
    return error(errc::invalid_request, "is a WebP file that cannot be decoded: its header is broken");
  if (facts.has_animation != 0)
    return error(errc::invalid_request, "is an animated WebP file, which is not supported");
  if (static_cast<std::uint32_t>(facts.width) != header.width ||
      static_cast<std::uint32_t>(facts.height) != header.height) {
    return error(errc::invalid_request, "is a WebP file whose headers differ in size");
  }
  decoded_rows out;
  out.channels = facts.has_alpha != 0 ? 4 : 3;
  const std::size_t stride = std::size_t{header.width} * out.channels;
  out.values.resize(stride * header.height);
  auto* const to = out.values.data();
  const auto* const done =
      out.channels == 4
          ? WebPDecodeRGBAInto(bytes, file.size(), to, out.values.size(), static_cast<int>(stride))
          : WebPDecodeRGBInto(bytes, file.size(), to, out.values.size(), static_cast<int>(stride));
  if (done == nullptr)
    return error(errc::invalid_request, "is a WebP file that cannot be decoded: it is truncated or broken");
  return out;
}

}  // namespace orcd::app
