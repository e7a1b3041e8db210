// A picture as pixels, and what becomes of it before a tower sees it. Plain data; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace orcd::engine {

/// 8-bit RGB, row by row. `rgb` has 3 * width * height bytes, and neither side is 0.
struct picture {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::vector<std::uint8_t> rgb;

  [[nodiscard]] std::span<const std::uint8_t> row(std::uint32_t y) const noexcept {
    return std::span(rgb).subspan(std::size_t{y} * width * 3, std::size_t{width} * 3);
  }
};

enum class resize_filter { bilinear, bicubic, lanczos };

/// How a picture gets its size. square: both sides are `side`, whatever they were. tiles: the longest side
/// becomes `longest`, each then a multiple of `side`, and what is larger than one tile is cut into tiles,
/// with all of it in one tile more behind them. multiples: both sides are multiples of `factor`, and their
/// product lies between two limits. budget: both sides are multiples of `factor`, the largest of the
/// picture's aspect that have at most `rows_max` squares. bounded: what is longer than `longest` is shrunk to
/// that, and both sides grow to multiples of `factor`.
enum class picture_layout { square, tiles, multiples, budget, bounded };

/// What a tower wants of a picture, from its file.
struct picture_rules {
  picture_layout layout = picture_layout::square;
  resize_filter filter = resize_filter::bilinear;
  std::uint32_t side = 0;        ///< square, tiles
  std::uint32_t longest = 0;     ///< tiles, bounded
  std::uint32_t factor = 0;      ///< multiples, budget, bounded
  std::uint32_t rows_max = 0;    ///< budget
  std::uint64_t pixels_min = 0;  ///< multiples
  std::uint64_t pixels_max = 0;  ///< multiples
  std::uint32_t patch = 0;       ///< side of a patch; divides `side` and `factor`
  std::uint32_t merge = 1;       ///< so many patches in a row, and rows of them, become one token
  std::array<float, 3> mean{};
  std::array<float, 3> deviation{};  ///< none is 0
};

/// A picture of a size that the tower takes: one view, or tiles row by row and the whole behind them.
struct prepared_picture {
  std::vector<picture> views;
  std::uint32_t tile_rows = 0;  ///< 0: there is one view, that of the whole
  std::uint32_t tile_columns = 0;
};

/// Ends of what the rules and a client can ask for.
struct picture_limits {
  static constexpr std::uint32_t side_max = 32'768;  ///< of a picture before it is resized
  static constexpr std::uint32_t aspect_max = 200;   ///< the longer side over the shorter one
  static constexpr std::uint32_t longest_max = 4'096;
};

}  // namespace orcd::engine
