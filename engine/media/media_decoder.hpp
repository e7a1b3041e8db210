// What makes pixels of a picture's file, and samples of a sound's. The bytes are a stranger's, so that an
// implementation decodes them where nothing can be lost. Any thread, several at once; a call waits, within a
// bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/error.hpp"
#include "engine/media/picture.hpp"
#include "engine/media/sound.hpp"

namespace orcd::engine {

/// Files of one kind, by what came of them.
struct decoded_files {
  std::uint64_t decoded = 0;
  std::uint64_t failed = 0;   ///< the file could not be decoded
  std::uint64_t crashed = 0;  ///< or ended its process
};

struct decoder_counts {
  decoded_files pictures, sounds;
  std::uint64_t restarts = 0;  ///< of what makes the processes
};

class media_decoder {
 public:
  virtual ~media_decoder() = default;
  /// 8-bit RGB, turned as its EXIF says, over white where it is transparent; at most `pixels_max` of them.
  /// Errors: invalid_request, without a path; not_ready where there is nothing to decode it.
  [[nodiscard]] virtual result<picture> decode(std::span<const std::byte> file, std::uint64_t pixels_max) = 0;
  /// Mono at sound_rate, of a WAV or MP3 file that lasts at most `seconds_max`. Errors: likewise.
  [[nodiscard]] virtual result<sound> decode_sound(std::span<const std::byte> file,
                                                   std::uint32_t seconds_max) = 0;
  [[nodiscard]] virtual decoder_counts counts() const noexcept = 0;
};

}  // namespace orcd::engine
