// The options of media: the projector, and what pictures and sounds of requests may be.
#include <limits>

#include "app/options/option_table.hpp"

namespace orcd::app {
namespace {

constexpr std::size_t location_bytes_max = 4'096;

requirement assign_projector(std::string_view value, options& out) {
  if (value.empty() || value.size() > location_bytes_max)
    return "must be a path, a file: URI or shm:/name of 1 to " + std::to_string(location_bytes_max) +
           " bytes";
  out.media.projector = value;
  return std::nullopt;
}

template <class T>
option_row number(const char* name, T media_options::*member, T least, T most, const std::string& text) {
  return {"", name, "N",
          text + " (" + std::to_string(least) + " to " + std::to_string(most) + ", default " +
              std::to_string(media_options{}.*member) + ")",
          [member, least, most](std::string_view value, options& out) -> requirement {
            const auto count = parse_unsigned(value);
            if (!count || *count < least || *count > most)
              return "must be an integer, " + std::to_string(least) + " to " + std::to_string(most);
            out.media.*member = static_cast<T>(*count);
            out.media.limits_given = true;
            return std::nullopt;
          }};
}

}  // namespace

std::vector<option_row> media_rows() {
  using m = media_options;
  return {
      {"", "mmproj", "LOCATION",
       "Projector file of pictures or of sounds (GGUF), as --model names a file: user messages may have such "
       "media then (default: none, and they are refused)",
       assign_projector},
      number("image-max-tokens", &m::image_tokens_max, 256U, 65'536U,
             "Tokens that a picture becomes at most: a larger one gets fewer pixels"),
      number("image-max-bytes", &m::image_bytes_max, std::uint64_t{1'024}, std::uint64_t{64} << 20U,
             "Bytes of a picture's file at most"),
      number("image-max-pixels", &m::image_pixels_max, std::uint64_t{1'024}, std::uint64_t{400'000'000},
             "Pixels of a picture at most, as its file says"),
      number("audio-max-bytes", &m::audio_bytes_max, std::uint64_t{1'024}, std::uint64_t{64} << 20U,
             "Bytes of a sound's file at most"),
      number("audio-max-seconds", &m::audio_seconds_max, 1U, 3'600U, "Seconds that a sound lasts at most"),
      number("max-images", &m::images_max, 1U, 1'000U, "Pictures, or sounds, of a request at most"),
      number("media-cache-mb", &m::cache_mib, 0U, 65'536U,
             "MiB for media that went through the projector, beside those of running requests"),
  };
}

engine::result<void> check_media(const options& o) {
  if (!o.media.projector.empty() || !o.media.limits_given) return {};
  return engine::error(engine::errc::invalid_request,
                       "limits of pictures and sounds are for a worker that takes them, which needs --mmproj",
                       "mmproj");
}

}  // namespace orcd::app
