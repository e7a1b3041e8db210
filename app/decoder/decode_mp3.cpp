#include <mpg123.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "app/decoder/decode_sound.hpp"
#include "engine/media/sound_header.hpp"

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;
using engine::sound;

struct handle_end {
  void operator()(mpg123_handle* handle) const noexcept { mpg123_delete(handle); }
};
using handle = std::unique_ptr<mpg123_handle, handle_end>;

error refuse(const std::string& why) {
  return {errc::invalid_request, "is an MP3 file that cannot be decoded: " + why};
}

/// One decoder on every processor, because the others' bits differ; samples are floats.
handle open_decoder() {
  handle out(mpg123_new("generic", nullptr));
  if (!out) return out;
  constexpr long quiet = MPG123_QUIET | MPG123_FORCE_FLOAT;
  // Bytes between frames are looked over so far; a broken file is refused rather than guessed at.
  constexpr long junk_bytes = 65'536;
  const bool set = mpg123_param(out.get(), MPG123_ADD_FLAGS, quiet, 0.0) == MPG123_OK &&
                   mpg123_param(out.get(), MPG123_RESYNC_LIMIT, junk_bytes, 0.0) == MPG123_OK &&
                   mpg123_open_feed(out.get()) == MPG123_OK;
  if (!set) out.reset();
  return out;
}

/// Rate and channels, which must stay what they are.
struct shape {
  long rate = 0;
  int channels = 0;
  int encoding = 0;
  friend bool operator==(const shape&, const shape&) = default;
};

/// Adds what was decoded; false where a sample is no number.
bool append(std::span<const unsigned char> decoded, int channels, std::vector<float>& out) {
  const auto count = decoded.size() / sizeof(float);
  const auto* const values = reinterpret_cast<const float*>(decoded.data());
  for (std::size_t i = 0; i + static_cast<std::size_t>(channels) <= count;
       i += static_cast<std::size_t>(channels)) {
    double sum = 0.0;
    for (int c = 0; c < channels; ++c) sum += static_cast<double>(values[i + static_cast<std::size_t>(c)]);
    const auto sample = static_cast<float>(sum / channels);
    if (!std::isfinite(sample)) return false;
    out.push_back(sample);
  }
  return true;
}

}  // namespace

result<sound> decode_mp3(std::span<const std::byte> file, std::uint32_t seconds_max) {
  if (mpg123_init() != MPG123_OK) return refuse("its decoder cannot be set up");
  const handle from = open_decoder();
  if (!from) return refuse("its decoder cannot be set up");
  if (mpg123_feed(from.get(), reinterpret_cast<const unsigned char*>(file.data()), file.size()) != MPG123_OK)
    return refuse(mpg123_strerror(from.get()));
  shape all;
  sound out;
  while (true) {
    off_t frame = 0;
    unsigned char* decoded = nullptr;
    std::size_t bytes = 0;
    const int status = mpg123_decode_frame(from.get(), &frame, &decoded, &bytes);
    if (status == MPG123_NEW_FORMAT) {
      shape now;
      mpg123_getformat(from.get(), &now.rate, &now.channels, &now.encoding);
      if (all.channels != 0 && now != all) return refuse("its frames differ in rate or channels");
      all = now;
      if (all.encoding != MPG123_ENC_FLOAT_32 || all.channels < 1 ||
          all.rate < engine::sound_limits::rate_min || all.rate > engine::sound_limits::rate_max)
        return refuse("its rate or channels are unknown");
      out.rate = static_cast<std::uint32_t>(all.rate);
      out.samples.reserve(std::size_t{out.rate} * seconds_max);
      continue;
    }
    if (status == MPG123_NEED_MORE || status == MPG123_DONE) break;
    if (status != MPG123_OK) return refuse(mpg123_strerror(from.get()));
    // Before they are added: the vector never grows beyond what was set aside.
    const auto added = bytes / sizeof(float) / static_cast<std::size_t>(std::max(all.channels, 1));
    if (out.samples.size() + added > std::size_t{out.rate} * seconds_max)
      return engine::too_long(seconds_max);
    if (!append({decoded, bytes}, all.channels, out.samples)) return refuse("a sample is no number");
  }
  if (out.samples.empty()) return refuse("it has no whole frame");
  return out;
}

}  // namespace orcd::app
