// Pictures and sounds of requests on their way to jobs: decoded, brought to what the tower takes, named by a
// digest, and put into a prompt's tokens. A projector takes one of the two kinds. Immutable; any thread,
// several at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/media/media_decoder.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/media/tower.hpp"
#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

/// What a request's media may be.
struct media_bounds {
  std::uint32_t media_max = 16;                  ///< of a request
  std::uint64_t bytes_max = 20ULL << 20U;        ///< of a picture's file
  std::uint64_t pixels_max = 50'000'000;         ///< of a picture
  std::uint32_t tokens_max = 4'096;              ///< that a picture becomes
  std::uint64_t sound_bytes_max = 20ULL << 20U;  ///< of a sound's file
  std::uint32_t seconds_max = 600;               ///< of a sound
};

/// A medium as the model gets it.
struct seen_medium {
  std::shared_ptr<const prepared_medium> content;
  std::string digest;
  std::string text;  ///< what stands in the prompt for it
  std::uint32_t rows = 0;
};

class media_input {
 public:
  /// `of` and `decoder` outlive the object. Errors: model_load_failed, param "mmproj", where the vocabulary
  /// has no token for a medium's rows.
  [[nodiscard]] static result<media_input> make(const tower& of, const tokenizer& vocabulary,
                                                media_decoder& decoder, media_bounds bounds);

  [[nodiscard]] const media_bounds& bounds() const noexcept { return bounds_; }
  [[nodiscard]] const picture_text& text() const noexcept { return of_->spec.text; }
  [[nodiscard]] const tower& projector() const noexcept { return *of_; }
  [[nodiscard]] decoder_counts counts() const noexcept { return decoder_->counts(); }
  /// Sounds are taken, and no pictures.
  [[nodiscard]] bool hears() const noexcept { return of_->spec.sound.has_value(); }

  /// Decodes a picture's file and prepares it; waits for the decoder. Errors: invalid_request, without a
  /// path; not_ready.
  [[nodiscard]] result<seen_medium> see(std::span<const std::byte> file, picture_detail detail) const;
  /// The same of a sound.
  [[nodiscard]] result<seen_medium> hear(std::span<const std::byte> file) const;

  /// Finds the rows of the media among a prompt's tokens, which become media_token there. Errors:
  /// invalid_request, where there are more or fewer, or the prompt ends with one.
  [[nodiscard]] result<std::vector<job_medium>> place(const std::vector<seen_medium>& media,
                                                      std::vector<token_id>& tokens) const;

 private:
  media_input(const tower& of, media_decoder& decoder, media_bounds bounds, token_id token)
      : of_(&of), decoder_(&decoder), bounds_(bounds), token_(token), rules_(of.spec.pictures) {}
  [[nodiscard]] std::string text_of(const prepared_picture& pixels) const;
  /// Of a picture whose rows are a grid; else 0.
  [[nodiscard]] std::uint32_t columns_of(const seen_medium& medium) const;
  [[nodiscard]] std::string_view kind() const noexcept { return hears() ? "sound" : "picture"; }

  const tower* of_;
  media_decoder* decoder_;
  media_bounds bounds_;
  token_id token_;       ///< that stands for a row
  picture_rules rules_;  ///< of the tower, within the bounds
};

}  // namespace orcd::engine
