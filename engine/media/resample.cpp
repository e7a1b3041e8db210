#include "engine/media/resample.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "engine/media/portable_sine.hpp"

namespace orcd::engine {
namespace {

constexpr double crossings = 48.0;      // of the sinc on each side
constexpr double cutoff = 0.932;        // of the lower rate's half
constexpr double kaiser_beta = 10.056;  // 100 dB
constexpr std::size_t lanes = 8;        // sums beside each other, in a fixed order

/// The modified Bessel function of order 0, by its series: all terms are positive.
double bessel(double x) noexcept {
  constexpr double smallest = 1e-18;
  const double quarter = x * x / 4.0;
  double sum = 1.0, term = 1.0;
  for (int k = 1; term > sum * smallest; ++k) sum += term *= quarter / (static_cast<double>(k) * k);
  return sum;
}

/// sin(pi x) / (pi x), whose argument is brought near 0 before it is multiplied.
double sinc(double x) noexcept {
  constexpr double pi = 0x1.921fb54442d18p+1;
  if (x == 0.0) return 1.0;
  const double whole = std::nearbyint(x);
  const double sine = portable_sine(pi * (x - whole));
  return ((static_cast<long long>(whole) & 1) != 0 ? -sine : sine) / (pi * x);
}

/// One row of coefficients for each place that an output has between two inputs.
struct filter {
  std::uint32_t places = 1;  ///< that an output can have; outputs so far apart have the same
  std::uint32_t step = 1;    ///< in places, from one output to the next
  std::size_t before = 0;    ///< inputs before an output that it is made of
  std::size_t taps = 0;      ///< a multiple of `lanes`
  std::vector<double> rows;  ///< [min(places, outputs)][taps], in the order of the outputs
};

void fill_row(std::span<double> row, double place, std::size_t before, double band) noexcept {
  const double half = crossings / band;
  const double top = bessel(kaiser_beta);
  double sum = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const double at = static_cast<double>(i) - static_cast<double>(before) - place;
    const double share = at / half;
    row[i] = std::fabs(share) >= 1.0
                 ? 0.0
                 : sinc(at * band) * bessel(kaiser_beta * std::sqrt(1.0 - share * share)) / top;
    sum += row[i];
  }
  for (double& value : row) value /= sum;
}

// A row costs a hundred times what it then makes of the samples: none is made for outputs that there are not.
filter make_filter(std::uint32_t from, std::uint32_t to, std::size_t outputs) {
  const std::uint32_t common = std::gcd(from, to);
  filter out{to / common, from / common, 0, 0, {}};
  const double band = cutoff * std::min(1.0, static_cast<double>(to) / from);
  out.before = static_cast<std::size_t>(std::ceil(crossings / band));
  out.taps = (2 * out.before + 1 + lanes - 1) / lanes * lanes;
  const std::size_t rows = std::min<std::size_t>(out.places, outputs);
  out.rows.resize(rows * out.taps);
  for (std::size_t i = 0; i < rows; ++i) {
    const std::uint64_t place = std::uint64_t{i} * out.step % out.places;
    fill_row(std::span(out.rows).subspan(i * out.taps, out.taps), static_cast<double>(place) / out.places,
             out.before, band);
  }
  return out;
}

double product(const double* row, const float* samples, std::size_t taps) noexcept {
  std::array<double, lanes> sums{};
  for (std::size_t i = 0; i < taps; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane)
      sums[lane] += row[i + lane] * static_cast<double>(samples[i + lane]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

std::uint64_t resampled_count(std::uint64_t samples, std::uint32_t from, std::uint32_t to) noexcept {
  const std::uint32_t common = std::gcd(from, to);
  const std::uint64_t places = to / common, step = from / common;
  return (samples * places + step - 1) / step;
}

std::vector<float> resample(std::span<const float> samples, std::uint32_t from, std::uint32_t to) {
  if (from == to) return {samples.begin(), samples.end()};
  std::vector<float> out(resampled_count(samples.size(), from, to));
  const filter with = make_filter(from, to, out.size());
  std::vector<float> edge(with.taps);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t at = std::uint64_t{i} * with.step;
    const std::size_t nearest = at / with.places;
    const double* const row = with.rows.data() + i % with.places * with.taps;
    const bool inside = nearest >= with.before && nearest - with.before + with.taps <= samples.size();
    if (inside) {
      out[i] = static_cast<float>(product(row, samples.data() + (nearest - with.before), with.taps));
      continue;
    }
    for (std::size_t k = 0; k < with.taps; ++k) {
      const std::size_t beyond = nearest + k;  // of the sample's index, by `before`
      const bool there = beyond >= with.before && beyond - with.before < samples.size();
      edge[k] = there ? samples[beyond - with.before] : 0.0F;
    }
    out[i] = static_cast<float>(product(row, edge.data(), with.taps));
  }
  return out;
}

}  // namespace orcd::engine
