// Samples of WAV and MP3 files, the latter by libmpg123. Runs in a process of its own, as decode_file does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/error.hpp"
#include "engine/media/sound.hpp"

namespace orcd::app {

/// Mono, at engine::sound_rate; refused where it lasts longer. Errors: invalid_request.
[[nodiscard]] engine::result<engine::sound> decode_sound(std::span<const std::byte> file,
                                                         std::uint32_t seconds_max);

/// At the file's own rate.
[[nodiscard]] engine::result<engine::sound> decode_mp3(std::span<const std::byte> file,
                                                       std::uint32_t seconds_max);

}  // namespace orcd::app
