// What the worker and its decoder say to each other. On their socket each message is a decode_order with the
// two ends of pipes that a child gets: the file's bytes come to one until it ends, and the answer goes to the
// other: a decode_answer, and behind it the pixels, the samples or the words of what is wrong.
#pragma once

#include <cstdint>

namespace orcd::app {

enum class decode_kind : std::uint32_t { picture = 1, sound = 2 };

struct decode_order {
  decode_kind kind = decode_kind::picture;
  std::uint32_t seconds_max = 0;  ///< of a sound
  std::uint64_t pixels_max = 0;   ///< of a picture
  std::uint64_t bytes = 0;        ///< of the file
};

enum class decode_status : std::uint32_t { pixels = 1, refused = 2, samples = 3 };

struct decode_answer {
  decode_status status = decode_status::refused;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t words = 0;    ///< bytes of text, where it is refused
  std::uint64_t samples = 0;  ///< of f32, at engine::sound_rate
};

/// The descriptor that the decoder is started with.
inline constexpr int decoder_socket = 3;
inline constexpr std::uint32_t decode_words_max = 256;
/// What a child may take: seconds of the processor, and of the clock.
struct decode_time {
  unsigned cpu_seconds = 10;
  unsigned wall_seconds = 20;
};
inline constexpr decode_time picture_time{};
inline constexpr decode_time sound_time{.cpu_seconds = 30, .wall_seconds = 60};

}  // namespace orcd::app
