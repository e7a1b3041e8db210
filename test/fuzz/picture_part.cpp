// Arbitrary bytes as the beginning of a picture's file, and as a part of a message: nothing is read beyond
// the bytes, and what is taken is named.
#include <boost/json/parse.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "engine/media/image_header.hpp"
#include "net/completion/sent_media.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orcd;
  const auto header = engine::read_image_header(std::as_bytes(std::span(data, size)));
  if (!header && header.error().message.empty()) std::abort();
  if (header && (header->orientation < 1 || header->orientation > 8)) std::abort();
  boost::system::error_code failed;
  const auto value =
      boost::json::parse(boost::json::string_view(reinterpret_cast<const char*>(data), size), failed);
  if (failed || !value.is_object()) return 0;
  net::sent_media pictures(engine::media_bounds{});
  const auto& part = value.get_object();
  const std::string path = "messages[0].content[0]";
  for (const auto& mark : {pictures.take_url_part(part, path), pictures.take_input_image(part, path),
                           pictures.take_image_block(part, path)}) {
    if (mark ? mark->size() < 36 : mark.error().param.rfind(path, 0) != 0) std::abort();
  }
  return 0;
}
