// Reads WAV files: PCM of 8, 16, 24 and 32 bits and floats of 32 and 64, 1 to 64 channels. The bytes are a
// stranger's: every size is checked against what is there. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/error.hpp"
#include "engine/media/sound.hpp"

namespace orcd::engine {

struct wav_header {
  bool floats = false;
  std::uint32_t bits = 0;  ///< of a sample
  std::uint32_t channels = 0;
  std::uint32_t rate = 0;
  std::size_t data_at = 0;  ///< in the file
  std::uint64_t frames = 0;

  [[nodiscard]] std::size_t frame_bytes() const noexcept { return std::size_t{channels} * bits / 8; }
};

/// Whether the file says that it is one.
[[nodiscard]] bool is_wav(std::span<const std::byte> file) noexcept;

/// Everything but the samples, which lie within the file. Errors: invalid_request, without a path: sizes that
/// do not fit, kinds and rates that are not taken, no samples.
[[nodiscard]] result<wav_header> read_wav_header(std::span<const std::byte> file);

/// `header` is of this file. Errors: invalid_request: a sample that is no number. Throws std::bad_alloc.
[[nodiscard]] result<sound> read_wav(std::span<const std::byte> file, const wav_header& header);

}  // namespace orcd::engine
