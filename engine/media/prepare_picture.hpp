// From a decoded picture to the pixels that a tower is given: the sizes, cuts and values that the models were
// trained with, equal to transformers' processors (their PIL backend) bit for bit. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>

#include "engine/base/error.hpp"
#include "engine/media/picture.hpp"

namespace orcd::engine {

/// What a request asks for: low is one view, and at most 256 tokens.
enum class picture_detail { automatic, low };

struct picture_size {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  friend constexpr bool operator==(const picture_size&, const picture_size&) = default;
};

/// Tokens that a view of this size becomes.
[[nodiscard]] std::uint32_t tokens_of_view(const picture_rules& rules, picture_size size) noexcept;

/// Errors (invalid_request): a side of 0 or beyond side_max, a side more than aspect_max times the other.
[[nodiscard]] result<void> check_picture_size(picture_size size);

/// The largest number of rows that a picture of layout budget may have, of those that models were trained
/// with, which is no more than `rows`; the least of them for less.
[[nodiscard]] std::uint32_t picture_budget(std::uint32_t rows) noexcept;

/// The longest side of layout bounded with which no picture has more than `rows` rows, or than one.
[[nodiscard]] std::uint32_t bounded_longest(std::uint32_t rows, std::uint32_t factor) noexcept;

/// Sides of the one view, or of a picture before it is cut into tiles.
[[nodiscard]] picture_size view_size(const picture_rules& rules, picture_size of, picture_detail detail);

/// `from` has passed check_picture_size(). Throws std::bad_alloc.
[[nodiscard]] prepared_picture prepare_picture(const picture& from, const picture_rules& rules,
                                               picture_detail detail);

/// The value of every byte in each channel, [channel][byte]: (byte / 255 - mean) / deviation, in f32 but for
/// the first factor. `out` has 768 values.
void fill_pixel_values(const picture_rules& rules, std::span<float> out) noexcept;

/// The values of the patch whose first pixel is (x, y), in the order channel, row, column: 3 * patch * patch.
/// `values` are fill_pixel_values()'s.
void copy_patch(const picture& view, const picture_rules& rules, std::uint32_t x, std::uint32_t y,
                std::span<const float> values, std::span<float> out) noexcept;

}  // namespace orcd::engine
