#include "engine/media/prepare_picture.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "engine/base/ensure.hpp"
#include "engine/media/resize.hpp"

namespace orcd::engine {
namespace {

constexpr std::uint32_t low_tokens_max = 256;

std::uint32_t up_to_multiple(std::uint32_t value, std::uint32_t of) noexcept {
  return (value + of - 1) / of * of;
}

/// The longest side becomes `longest`; the other keeps the aspect, is cut to an integer and made even.
picture_size with_longest(picture_size of, std::uint32_t longest) noexcept {
  const double aspect = static_cast<double>(of.width) / of.height;
  picture_size out{longest, longest};
  if (of.width >= of.height) {
    out.height = static_cast<std::uint32_t>(longest / aspect);
    out.height += out.height % 2;
  } else {
    out.width = static_cast<std::uint32_t>(longest * aspect);
    out.width += out.width % 2;
  }
  return {std::max(out.width, 1U), std::max(out.height, 1U)};
}

/// Both sides become multiples of a tile, the shorter one by the aspect of the longer one's new length.
picture_size in_tiles(picture_size of, std::uint32_t tile) noexcept {
  const double aspect = static_cast<double>(of.width) / of.height;
  if (of.width >= of.height) {
    const std::uint32_t width = up_to_multiple(of.width, tile);
    return {width, up_to_multiple(static_cast<std::uint32_t>(width / aspect), tile)};
  }
  const std::uint32_t height = up_to_multiple(of.height, tile);
  return {up_to_multiple(static_cast<std::uint32_t>(height * aspect), tile), height};
}

/// Multiples whose product is at most `most`.
picture_size within(picture_size of, std::uint32_t factor, std::uint64_t most) noexcept {
  const double scale = std::sqrt(static_cast<double>(of.width) * of.height / static_cast<double>(most));
  // Where the shorter side cannot become shorter, the longer one must.
  const std::uint32_t longest = std::max(factor, static_cast<std::uint32_t>(most / factor / factor) * factor);
  const auto side = [&](std::uint32_t from) {
    const auto multiples = static_cast<std::uint32_t>(std::floor(from / scale / factor));
    return std::clamp(multiples * factor, factor, longest);
  };
  return {side(of.width), side(of.height)};
}

/// To the nearest multiples, ties to even ones, unless the product leaves the limits.
picture_size in_multiples(picture_size of, std::uint32_t factor, std::uint64_t least,
                          std::uint64_t most) noexcept {
  const double f = factor;
  const double area = static_cast<double>(of.width) * of.height;
  const auto as_side = [&](double multiples) { return static_cast<std::uint32_t>(multiples) * factor; };
  const picture_size near{as_side(std::nearbyint(of.width / f)), as_side(std::nearbyint(of.height / f))};
  const std::uint64_t product = std::uint64_t{near.width} * near.height;
  if (product > most) return within(of, factor, most);
  if (product >= least) return near;
  const double scale = std::sqrt(static_cast<double>(least) / area);
  const picture_size grown{as_side(std::ceil(of.width * scale / f)),
                           as_side(std::ceil(of.height * scale / f))};
  return std::uint64_t{grown.width} * grown.height > most ? within(grown, factor, most) : grown;
}

/// The largest sides of about the picture's aspect. A side that would vanish has one square, and the other as
/// many as it is longer.
picture_size in_budget(picture_size of, std::uint32_t factor, std::uint32_t patch, std::uint32_t merge,
                       std::uint32_t rows) noexcept {
  const std::uint32_t patches = rows * merge * merge;
  const double pixels = static_cast<double>(patches) * (static_cast<double>(patch) * patch);
  const double scale = std::sqrt(pixels / (static_cast<double>(of.width) * of.height));
  const auto squares = [&](std::uint32_t side) {
    return static_cast<std::uint32_t>(std::floor(scale * side / factor));
  };
  picture_size out{squares(of.width), squares(of.height)};
  if (out.height == 0) out = {std::min(of.width / of.height, rows), 1};
  if (out.width == 0) out = {1, std::min(of.height / of.width, rows)};
  return {out.width * factor, out.height * factor};
}

/// A side of 0 becomes one square.
picture_size bounded(picture_size of, std::uint32_t longest, std::uint32_t factor) noexcept {
  const double most = longest;
  const double ratio = std::max(of.width / most, of.height / most);
  if (ratio > 1.0) {
    of = {static_cast<std::uint32_t>(std::floor(of.width / ratio)),
          static_cast<std::uint32_t>(std::floor(of.height / ratio))};
  }
  return {up_to_multiple(std::max(of.width, 1U), factor), up_to_multiple(std::max(of.height, 1U), factor)};
}

picture cut(const picture& from, std::uint32_t x, std::uint32_t y, std::uint32_t side) {
  picture out{side, side, std::vector<std::uint8_t>(std::size_t{side} * side * 3)};
  const std::size_t row_bytes = std::size_t{side} * 3;
  for (std::uint32_t i = 0; i < side; ++i) {
    const auto row = from.row(y + i).subspan(std::size_t{x} * 3, row_bytes);
    std::copy(row.begin(), row.end(), out.rgb.begin() + static_cast<std::ptrdiff_t>(i * row_bytes));
  }
  return out;
}

prepared_picture prepare_tiles(const picture& from, const picture_rules& rules, picture_detail detail) {
  const std::uint32_t tile = rules.side;
  const picture_size first = with_longest({from.width, from.height}, rules.longest);
  picture whole = resize(from, first.width, first.height, rules.filter);
  prepared_picture out;
  if (detail == picture_detail::low) {
    out.views.push_back(resize(whole, tile, tile, rules.filter));
    return out;
  }
  const picture_size second = in_tiles(first, tile);
  whole = resize(whole, second.width, second.height, rules.filter);
  if (second.width <= tile && second.height <= tile) {
    out.views.push_back(std::move(whole));
    return out;
  }
  out.tile_rows = second.height / tile;
  out.tile_columns = second.width / tile;
  for (std::uint32_t y = 0; y < second.height; y += tile)
    for (std::uint32_t x = 0; x < second.width; x += tile) out.views.push_back(cut(whole, x, y, tile));
  out.views.push_back(resize(whole, tile, tile, rules.filter));
  return out;
}

}  // namespace

std::uint32_t tokens_of_view(const picture_rules& rules, picture_size size) noexcept {
  const std::uint32_t side = rules.patch * rules.merge;
  return (size.width / side) * (size.height / side);
}

result<void> check_picture_size(picture_size size) {
  const auto [shorter, longer] = std::minmax(size.width, size.height);
  const std::string is =
      "the picture is " + std::to_string(size.width) + " by " + std::to_string(size.height) + " pixels; ";
  if (shorter == 0) return error(errc::invalid_request, is + "each side must be at least 1");
  if (longer > picture_limits::side_max) {
    return error(errc::invalid_request,
                 is + "the limit of a side is " + std::to_string(picture_limits::side_max));
  }
  if (longer > std::uint64_t{shorter} * picture_limits::aspect_max) {
    return error(errc::invalid_request, is + "a side may be at most " +
                                            std::to_string(picture_limits::aspect_max) +
                                            " times as long as the other");
  }
  return {};
}

std::uint32_t picture_budget(std::uint32_t rows) noexcept {
  constexpr std::array<std::uint32_t, 5> trained{70, 140, 280, 560, 1'120};
  std::uint32_t out = trained.front();
  for (const std::uint32_t one : trained)
    if (one <= rows) out = one;
  return out;
}

std::uint32_t bounded_longest(std::uint32_t rows, std::uint32_t factor) noexcept {
  return std::max(static_cast<std::uint32_t>(std::sqrt(static_cast<double>(rows))), 1U) * factor;
}

picture_size view_size(const picture_rules& rules, picture_size of, picture_detail detail) {
  if (rules.layout == picture_layout::budget) {
    const bool low = detail == picture_detail::low && rules.rows_max > low_tokens_max;
    return in_budget(of, rules.factor, rules.patch, rules.merge,
                     low ? picture_budget(low_tokens_max) : rules.rows_max);
  }
  if (rules.layout == picture_layout::bounded) {
    const bool low = detail == picture_detail::low;
    const std::uint32_t most = low ? bounded_longest(low_tokens_max, rules.factor) : rules.longest;
    return bounded(of, std::min(rules.longest, most), rules.factor);
  }
  if (rules.layout == picture_layout::square) return {rules.side, rules.side};
  if (rules.layout == picture_layout::tiles) {
    if (detail == picture_detail::low) return {rules.side, rules.side};
    return in_tiles(with_longest(of, rules.longest), rules.side);
  }
  std::uint64_t most = rules.pixels_max;
  if (detail == picture_detail::low)
    most = std::min(most, std::uint64_t{low_tokens_max} * rules.factor * rules.factor);
  return in_multiples(of, rules.factor, std::min(rules.pixels_min, most), most);
}

prepared_picture prepare_picture(const picture& from, const picture_rules& rules, picture_detail detail) {
  if (rules.layout == picture_layout::tiles) return prepare_tiles(from, rules, detail);
  const picture_size size = view_size(rules, {from.width, from.height}, detail);
  prepared_picture out;
  out.views.push_back(resize(from, size.width, size.height, rules.filter));
  return out;
}

void fill_pixel_values(const picture_rules& rules, std::span<float> out) noexcept {
  ORCD_ENSURE(out.size() == 768);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const auto share = static_cast<float>(static_cast<double>(byte) * (1.0 / 255.0));
      out[channel * 256 + byte] = (share - rules.mean[channel]) / rules.deviation[channel];
    }
  }
}

void copy_patch(const picture& view, const picture_rules& rules, std::uint32_t x, std::uint32_t y,
                std::span<const float> values, std::span<float> out) noexcept {
  const std::size_t side = rules.patch;
  for (std::size_t row = 0; row < side; ++row) {
    const auto pixels = view.row(y + static_cast<std::uint32_t>(row)).subspan(std::size_t{x} * 3, side * 3);
    for (std::size_t column = 0; column < side; ++column)
      for (std::size_t channel = 0; channel < 3; ++channel)
        out[(channel * side + row) * side + column] = values[channel * 256 + pixels[column * 3 + channel]];
  }
}

}  // namespace orcd::engine
