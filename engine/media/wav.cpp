#include "engine/media/wav.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>

namespace orcd::engine {
namespace {

using bytes = std::span<const std::byte>;

constexpr std::size_t riff_head_bytes = 12;
constexpr std::size_t chunk_head_bytes = 8;
constexpr std::uint32_t pcm_tag = 1, float_tag = 3, extensible_tag = 0xFFFE;

error refuse(std::string text) {
  return {errc::invalid_request, "is a WAV file " + std::move(text)};
}

std::uint32_t little(bytes from, std::size_t index, std::size_t count) noexcept {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < count; ++i) out |= std::to_integer<std::uint32_t>(from[index + i]) << (8 * i);
  return out;
}

bool has_text(bytes from, std::size_t index, std::string_view text) noexcept {
  return from.size() >= index + text.size() &&
         std::memcmp(from.data() + index, text.data(), text.size()) == 0;
}

/// The tag of an extensible format is the first two bytes of an identifier whose others are these.
bool is_known_identifier(bytes format) noexcept {
  constexpr std::string_view rest("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71", 14);
  constexpr std::size_t at = 26;
  return has_text(format, at, rest);
}

/// The chunk "fmt ".
result<wav_header> read_format(bytes format) {
  constexpr std::size_t plain_bytes = 16, extensible_bytes = 40, tag_at = 24;
  if (format.size() < plain_bytes) return refuse("whose chunk 'fmt ' is too short");
  std::uint32_t tag = little(format, 0, 2);
  if (tag == extensible_tag) {
    if (format.size() < extensible_bytes || !is_known_identifier(format))
      return refuse("of an extensible format that is not known");
    tag = little(format, tag_at, 2);
  }
  wav_header out;
  out.floats = tag == float_tag;
  out.channels = little(format, 2, 2);
  out.rate = little(format, 4, 4);
  out.bits = little(format, 14, 2);
  const bool whole = tag == pcm_tag && (out.bits == 8 || out.bits == 16 || out.bits == 24 || out.bits == 32);
  if (!whole && !(out.floats && (out.bits == 32 || out.bits == 64))) {
    return refuse("of format " + std::to_string(tag) + " with " + std::to_string(out.bits) +
                  " bits; taken are PCM of 8, 16, 24 and 32 bits and floats of 32 and 64");
  }
  if (out.channels == 0 || out.channels > sound_limits::channels_max) {
    return refuse("of " + std::to_string(out.channels) + " channels; there may be 1 to " +
                  std::to_string(sound_limits::channels_max));
  }
  if (out.rate < sound_limits::rate_min || out.rate > sound_limits::rate_max) {
    return refuse("of " + std::to_string(out.rate) + " samples a second; there may be " +
                  std::to_string(sound_limits::rate_min) + " to " + std::to_string(sound_limits::rate_max));
  }
  if (little(format, 12, 2) != out.frame_bytes())
    return refuse("that says a frame has another size than its channels make");
  return out;
}

/// One sample as its bytes say; whole numbers become parts of their largest. NaN where a float is no number.
double sample_at(const std::byte* at, const wav_header& header) noexcept {
  if (header.floats && header.bits == 64) {
    double value{};
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  std::uint32_t raw = 0;
  for (std::uint32_t i = 0; i < header.bits / 8; ++i) raw |= std::to_integer<std::uint32_t>(at[i]) << (8 * i);
  if (header.floats) return static_cast<double>(std::bit_cast<float>(raw));
  if (header.bits == 8) return (static_cast<double>(raw) - 128.0) / 128.0;
  // The sign is where it belongs once the sample's last bit is the word's.
  return static_cast<double>(static_cast<std::int32_t>(raw << (32 - header.bits))) / 2147483648.0;
}

}  // namespace

bool is_wav(bytes file) noexcept {
  return has_text(file, 0, "RIFF") && has_text(file, 8, "WAVE");
}

result<wav_header> read_wav_header(bytes file) {
  if (!is_wav(file)) return error(errc::invalid_request, "is no WAV file");
  const std::uint64_t end = std::uint64_t{little(file, 4, 4)} + chunk_head_bytes;
  if (end > file.size() || end < riff_head_bytes) {
    return refuse("that says it has " + std::to_string(end) + " bytes, but has " +
                  std::to_string(file.size()));
  }
  bytes left = file.subspan(riff_head_bytes, static_cast<std::size_t>(end) - riff_head_bytes);
  wav_header out;
  while (left.size() >= chunk_head_bytes) {
    const std::size_t size = little(left, 4, 4);
    if (size > left.size() - chunk_head_bytes) {
      return refuse("with a chunk of " + std::to_string(size) + " bytes where " +
                    std::to_string(left.size() - chunk_head_bytes) + " are left");
    }
    const bytes chunk = left.subspan(chunk_head_bytes, size);
    if (has_text(left, 0, "fmt ")) {
      if (out.channels != 0) return refuse("with two chunks 'fmt '");
      auto format = read_format(chunk);
      if (!format) return format;
      out = *format;
    } else if (has_text(left, 0, "data")) {
      if (out.channels == 0) return refuse("whose chunk 'data' comes before 'fmt '");
      out.data_at = static_cast<std::size_t>(chunk.data() - file.data());
      out.frames = chunk.size() / out.frame_bytes();
      if (chunk.size() % out.frame_bytes() != 0) return refuse("whose last frame is not whole");
      if (out.frames == 0) return refuse("without a sample");
      return out;
    }
    // Of a chunk of an odd size a byte follows, which the last one may lack.
    left = left.subspan(std::min(left.size(), chunk_head_bytes + size + size % 2));
  }
  return refuse(out.channels == 0 ? "without a chunk 'fmt '" : "without a chunk 'data'");
}

result<sound> read_wav(bytes file, const wav_header& header) {
  sound out{header.rate, std::vector<float>(header.frames)};
  const std::byte* at = file.data() + header.data_at;
  const std::size_t step = header.bits / 8;
  for (float& sample : out.samples) {
    double sum = 0.0;
    for (std::uint32_t channel = 0; channel < header.channels; ++channel, at += step) {
      const double value = sample_at(at, header);
      if (!(std::fabs(value) <= sound_limits::loudest))
        return refuse("with a sample that is no number, or far too loud");
      sum += value;
    }
    sample = static_cast<float>(sum / header.channels);
  }
  return out;
}

}  // namespace orcd::engine
