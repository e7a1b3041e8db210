// Arbitrary bytes as a sound's file, and as a part of a message: nothing is read beyond the bytes, what is
// made of them is made of numbers, and what is refused is named.
#include <boost/json/parse.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "engine/media/sound_header.hpp"
#include "engine/media/wav.hpp"
#include "net/completion/sent_media.hpp"

namespace {

using namespace orcd;

void read_file(std::span<const std::byte> file) {
  constexpr std::uint32_t seconds_max = 60;
  const auto header = engine::read_sound_header(file, seconds_max);
  if (!header && header.error().message.empty()) std::abort();
  if (!header || header->format != engine::sound_format::wav) return;
  const auto wav = engine::read_wav_header(file);
  if (!wav || wav->frames != header->samples || wav->frames > file.size()) std::abort();
  const auto made = engine::read_wav(file, *wav);
  if (!made && made.error().message.empty()) std::abort();
  if (!made) return;
  if (made->samples.size() != wav->frames) std::abort();
  for (const float sample : made->samples)
    if (!std::isfinite(sample)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  read_file(std::as_bytes(std::span(data, size)));
  boost::system::error_code failed;
  const auto value =
      boost::json::parse(boost::json::string_view(reinterpret_cast<const char*>(data), size), failed);
  if (failed || !value.is_object()) return 0;
  net::sent_media sounds(engine::media_bounds{}, true);
  const std::string path = "messages[0].content[0]";
  const auto mark = sounds.take_audio_part(value.get_object(), path);
  if (mark ? mark->size() < 36 : mark.error().param.rfind(path, 0) != 0) std::abort();
  return 0;
}
