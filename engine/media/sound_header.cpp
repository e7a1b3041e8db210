#include "engine/media/sound_header.hpp"

#include <array>
#include <cstring>
#include <string>

#include "engine/media/wav.hpp"

namespace orcd::engine {
namespace {

using bytes = std::span<const std::byte>;

std::uint32_t at(bytes from, std::size_t index) noexcept {
  return std::to_integer<std::uint32_t>(from[index]);
}

/// Bytes of the tags (ID3) before an MP3's first frame.
std::size_t tag_bytes(bytes file) noexcept {
  constexpr std::size_t head = 10;
  if (file.size() < head || std::memcmp(file.data(), "ID3", 3) != 0) return 0;
  std::size_t size = 0;
  for (std::size_t i = 6; i < head; ++i) size = size << 7U | (at(file, i) & 0x7FU);
  const bool repeated_at_its_end = (at(file, 5) & 0x10U) != 0;
  return head + size + (repeated_at_its_end ? head : 0);
}

/// Samples a second of a frame of layer III that begins here; 0: none does.
std::uint32_t mp3_rate(bytes from) noexcept {
  if (from.size() < 4 || at(from, 0) != 0xFF || (at(from, 1) & 0xE0U) != 0xE0U) return 0;
  const std::uint32_t version = at(from, 1) >> 3U & 3U, layer = at(from, 1) >> 1U & 3U;
  const std::uint32_t bit_rate = at(from, 2) >> 4U, rate = at(from, 2) >> 2U & 3U;
  constexpr std::uint32_t version_unused = 1, layer_3 = 1, unused = 3, bit_rate_unused = 15;
  if (version == version_unused || layer != layer_3 || rate == unused) return 0;
  if (bit_rate == 0 || bit_rate == bit_rate_unused) return 0;
  constexpr std::array<std::uint32_t, 3> rates{44'100, 48'000, 32'000};
  return rates.at(rate) >> (version == 3 ? 0U : version == 2 ? 1U : 2U);
}

}  // namespace

error too_long(std::uint32_t seconds_max) {
  return {errc::invalid_request,
          "lasts longer than the limit of " + std::to_string(seconds_max) + " seconds"};
}

result<sound_header> read_sound_header(bytes file) {
  if (file.empty()) return error(errc::invalid_request, "has no bytes");
  if (is_wav(file)) {
    const auto header = read_wav_header(file);
    if (!header) return header.error();
    return sound_header{sound_format::wav, header->rate, header->frames};
  }
  const std::size_t tags = tag_bytes(file);
  const std::uint32_t rate = tags < file.size() ? mp3_rate(file.subspan(tags)) : 0;
  if (rate == 0) return error(errc::invalid_request, "is no sound that is taken: WAV and MP3 are");
  return sound_header{sound_format::mp3, rate, 0};
}

result<sound_header> read_sound_header(bytes file, std::uint32_t seconds_max) {
  auto header = read_sound_header(file);
  if (header && header->samples > std::uint64_t{header->rate} * seconds_max) return too_long(seconds_max);
  return header;
}

}  // namespace orcd::engine
