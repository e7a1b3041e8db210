#include "engine/media/resize.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/ensure.hpp"
#include "engine/media/portable_sine.hpp"

namespace orcd::engine {
namespace {

constexpr int weight_bits = 22;

double bilinear(double x) noexcept {
  return std::max(0.0, 1.0 - std::fabs(x));
}

double bicubic(double x) noexcept {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

double sinc(double x) noexcept {
  if (x == 0.0) return 1.0;
  x *= 0x1.921fb54442d18p+1;
  return portable_sine(x) / x;
}

double lanczos(double x) noexcept {
  return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

struct kernel {
  double support;
  double (*weight)(double) noexcept;
};

kernel kernel_of(resize_filter filter) noexcept {
  switch (filter) {
    case resize_filter::bilinear: return {1.0, bilinear};
    case resize_filter::bicubic: return {2.0, bicubic};
    case resize_filter::lanczos: break;
  }
  return {3.0, lanczos};
}

/// What one output value is made of: `count` inputs from `first` on.
struct tap_range {
  std::uint32_t first, count;
  std::size_t weights;  ///< index of the first weight
};

struct taps {
  std::vector<tap_range> ranges;
  std::vector<std::int32_t> weights;
};

std::int32_t fixed(double weight) noexcept {
  const double scaled = weight * (1 << weight_bits);
  return static_cast<std::int32_t>(weight < 0 ? -0.5 + scaled : 0.5 + scaled);
}

taps taps_of(std::uint32_t size, std::uint32_t target, resize_filter filter) {
  const kernel k = kernel_of(filter);
  const double scale = static_cast<double>(size) / target;
  const double wide = std::max(scale, 1.0);
  const double support = k.support * wide;
  const double step = 1.0 / wide;
  taps out;
  out.ranges.reserve(target);
  std::vector<double> weights;
  for (std::uint32_t i = 0; i < target; ++i) {
    const double centre = (i + 0.5) * scale;
    const auto low = static_cast<std::uint32_t>(std::max(0.0, centre - support + 0.5));
    const auto high = static_cast<std::uint32_t>(std::min<double>(size, centre + support + 0.5));
    weights.clear();
    double total = 0.0;
    for (std::uint32_t x = low; x < high; ++x) {
      weights.push_back(k.weight((static_cast<double>(x) - centre + 0.5) * step));
      total += weights.back();
    }
    out.ranges.push_back({low, high - low, out.weights.size()});
    for (const double weight : weights) out.weights.push_back(fixed(total != 0.0 ? weight / total : weight));
  }
  return out;
}

std::uint8_t clipped(std::int32_t sum) noexcept {
  return static_cast<std::uint8_t>(std::clamp(sum >> weight_bits, 0, 255));
}

constexpr std::int32_t half = 1 << (weight_bits - 1);

picture resize_rows(const picture& from, std::uint32_t width, resize_filter filter) {
  const taps by = taps_of(from.width, width, filter);
  picture out{width, from.height, std::vector<std::uint8_t>(std::size_t{width} * from.height * 3)};
  std::uint8_t* to = out.rgb.data();
  for (std::uint32_t y = 0; y < from.height; ++y) {
    const std::uint8_t* const row = from.row(y).data();
    for (const tap_range& range : by.ranges) {
      const std::uint8_t* at = row + std::size_t{range.first} * 3;
      const std::int32_t* const weights = by.weights.data() + range.weights;
      std::int32_t r = half, g = half, b = half;
      for (std::uint32_t i = 0; i < range.count; ++i, at += 3) {
        r += at[0] * weights[i];
        g += at[1] * weights[i];
        b += at[2] * weights[i];
      }
      *to++ = clipped(r);
      *to++ = clipped(g);
      *to++ = clipped(b);
    }
  }
  return out;
}

picture resize_columns(const picture& from, std::uint32_t height, resize_filter filter) {
  const taps by = taps_of(from.height, height, filter);
  const std::size_t row_bytes = std::size_t{from.width} * 3;
  picture out{from.width, height, std::vector<std::uint8_t>(row_bytes * height)};
  std::vector<std::int32_t> sums(row_bytes);
  for (std::uint32_t y = 0; y < height; ++y) {
    const tap_range& range = by.ranges[y];
    std::fill(sums.begin(), sums.end(), half);
    for (std::uint32_t i = 0; i < range.count; ++i) {
      const std::uint8_t* const row = from.row(range.first + i).data();
      const std::int32_t weight = by.weights[range.weights + i];
      for (std::size_t x = 0; x < row_bytes; ++x) sums[x] += row[x] * weight;
    }
    std::uint8_t* const to = out.rgb.data() + y * row_bytes;
    for (std::size_t x = 0; x < row_bytes; ++x) to[x] = clipped(sums[x]);
  }
  return out;
}

}  // namespace

picture resize(const picture& from, std::uint32_t width, std::uint32_t height, resize_filter filter) {
  ORCD_ENSURE(from.width > 0 && from.height > 0 && width > 0 && height > 0);
  ORCD_ENSURE(from.rgb.size() == std::size_t{from.width} * from.height * 3);
  picture out = from.width == width ? from : resize_rows(from, width, filter);
  return height == out.height ? out : resize_columns(out, height, filter);
}

}  // namespace orcd::engine
