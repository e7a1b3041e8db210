// What the beginning of a sound's file says, before a sample of it is decoded: which format it is, by its
// content, and of a WAV file how long it is. Pure; reads nothing beyond the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::engine {

enum class sound_format { wav, mp3 };

[[nodiscard]] constexpr std::string_view to_string(sound_format format) noexcept {
  return format == sound_format::wav ? "WAV" : "MP3";
}

struct sound_header {
  sound_format format = sound_format::wav;
  std::uint32_t rate = 0;
  std::uint64_t samples = 0;  ///< of a channel; 0 of MP3, whose length is in all of its frames
};

/// Errors: invalid_request; the message has no path.
[[nodiscard]] result<sound_header> read_sound_header(std::span<const std::byte> file);
/// The same of a file that may be decoded: it lasts no longer, as far as its header says.
[[nodiscard]] result<sound_header> read_sound_header(std::span<const std::byte> file,
                                                     std::uint32_t seconds_max);

/// Why a sound that lasts longer is refused.
[[nodiscard]] error too_long(std::uint32_t seconds_max);

}  // namespace orcd::engine
