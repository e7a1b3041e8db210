// Pictures of requests on their way to jobs: decoded, brought to the tower's size, named by a digest, and put
// into a prompt's tokens. Immutable; any thread, several at once.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/media/picture_decoder.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/media/tower.hpp"
#include "engine/schedule/job.hpp"
#include "engine/text/tokenizer.hpp"

namespace orcd::engine {

/// What a request's pictures may be.
struct picture_bounds {
  std::uint32_t pictures_max = 16;         ///< of a request
  std::uint64_t bytes_max = 20ULL << 20U;  ///< of a picture's file
  std::uint64_t pixels_max = 50'000'000;   ///< of a picture
  std::uint32_t tokens_max = 4'096;        ///< that a picture becomes
};

/// A picture as the model gets it.
struct seen_picture {
  std::shared_ptr<const prepared_picture> pixels;
  std::string digest;
  std::string text;  ///< what stands in the prompt for it
  std::uint32_t rows = 0;
};

class picture_input {
 public:
  /// `of` and `decoder` outlive the object. Errors: model_load_failed, param "mmproj", where the vocabulary
  /// has no token for a picture's rows.
  [[nodiscard]] static result<picture_input> make(const tower& of, const tokenizer& vocabulary,
                                                  picture_decoder& decoder, picture_bounds bounds);

  [[nodiscard]] const picture_bounds& bounds() const noexcept { return bounds_; }
  [[nodiscard]] const picture_text& text() const noexcept { return of_->spec.text; }
  [[nodiscard]] const tower& projector() const noexcept { return *of_; }
  [[nodiscard]] decoder_counts counts() const noexcept { return decoder_->counts(); }

  /// Decodes a file and prepares it; waits for the decoder. Errors: invalid_request, without a path;
  /// not_ready.
  [[nodiscard]] result<seen_picture> see(std::span<const std::byte> file, picture_detail detail) const;

  /// Finds the rows of the pictures among a prompt's tokens, which become media_token there. Errors:
  /// invalid_request, where there are more or fewer, or the prompt ends with one.
  [[nodiscard]] result<std::vector<job_medium>> place(const std::vector<seen_picture>& pictures,
                                                      std::vector<token_id>& tokens) const;

 private:
  picture_input(const tower& of, picture_decoder& decoder, picture_bounds bounds, token_id token)
      : of_(&of), decoder_(&decoder), bounds_(bounds), token_(token), rules_(of.spec.pictures) {}
  [[nodiscard]] std::string text_of(const prepared_picture& pixels) const;
  /// Of a picture whose rows are a grid; else 0.
  [[nodiscard]] std::uint32_t columns_of(const seen_picture& picture) const;

  const tower* of_;
  picture_decoder* decoder_;
  picture_bounds bounds_;
  token_id token_;       ///< that stands for a row
  picture_rules rules_;  ///< of the tower, within the bounds
};

}  // namespace orcd::engine
