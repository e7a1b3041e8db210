#include "app/decoder/decode_sound.hpp"

#include "engine/media/resample.hpp"
#include "engine/media/sound_header.hpp"
#include "engine/media/wav.hpp"

namespace orcd::app {
namespace {

using engine::result;
using engine::sound;

result<sound> decode_wav(std::span<const std::byte> file) {
  const auto header = engine::read_wav_header(file);
  if (!header) return header.error();
  return engine::read_wav(file, *header);
}

}  // namespace

result<sound> decode_sound(std::span<const std::byte> file, std::uint32_t seconds_max) {
  const auto header = engine::read_sound_header(file, seconds_max);
  if (!header) return header.error();
  auto made = header->format == engine::sound_format::wav ? decode_wav(file) : decode_mp3(file, seconds_max);
  if (!made || made->rate == engine::sound_rate) return made;
  return sound{engine::sound_rate, engine::resample(made->samples, made->rate, engine::sound_rate)};
}

}  // namespace orcd::app
