#include "engine/media/log_mel.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/base/portable_log.hpp"
#include "engine/media/portable_sine.hpp"

namespace orcd::engine {
namespace {

constexpr std::size_t window = 400;  // samples of a frame
constexpr std::size_t strengths = window / 2 + 1;
constexpr double pi = 0x1.921fb54442d18p+1;

struct complex {
  double re = 0.0, im = 0.0;
};

constexpr complex operator*(complex a, complex b) noexcept {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/// The discrete Fourier transform of 400 values, by its factors.
class fourier {
 public:
  fourier() {
    for (std::size_t i = 0; i < window; ++i) {
      // Angles within half a turn, for the sine's sake.
      const double place = static_cast<double>(i) - (i <= window / 2 ? 0.0 : window);
      const double turn = 2.0 * place / window;
      roots_[i] = {portable_sine(pi * (turn + 0.5)), -portable_sine(pi * turn)};
    }
  }

  /// What was in `from` is gone; the result is in `from`, too.
  void run(std::array<complex, window>& from) noexcept {
    std::size_t done = 1;
    for (const std::size_t factor : {4U, 4U, 5U, 5U}) {
      pass(from, work_, factor, done);
      from.swap(work_);
      done *= factor;
    }
  }

 private:
  /// Transforms of `done` values become transforms of done * factor.
  void pass(const std::array<complex, window>& from, std::array<complex, window>& to, std::size_t factor,
            std::size_t done) const noexcept {
    const std::size_t groups = window / (factor * done);
    const std::size_t turn = window / (factor * done);  // of roots_, for one step of the larger transform
    std::array<complex, 5> parts;
    for (std::size_t group = 0; group < groups; ++group) {
      for (std::size_t k = 0; k < done; ++k) {
        for (std::size_t i = 0; i < factor; ++i)
          parts[i] = from[(group + i * groups) * done + k] * roots_[i * k * turn % window];
        for (std::size_t i = 0; i < factor; ++i) {
          complex sum = parts[0];
          for (std::size_t j = 1; j < factor; ++j) {
            const complex part = parts[j] * roots_[i * j * (window / factor) % window];
            sum = {sum.re + part.re, sum.im + part.im};
          }
          to[group * factor * done + i * done + k] = sum;
        }
      }
    }
  }

  std::array<complex, window> roots_{}, work_{};
};

/// e^x for 0 <= x <= 4, by the series of e^(x/16).
double exponential(double x) noexcept {
  const double part = x / 16.0;
  double sum = 1.0;
  for (int k = 18; k >= 1; --k) sum = 1.0 + sum * part / k;
  for (int i = 0; i < 4; ++i) sum *= sum;
  return sum;
}

/// Slaney's scale: linear to 1,000 Hz, which is 15, and then 27 steps for each factor of 6.4.
double hertz_of(double mel) noexcept {
  constexpr double linear_end = 15.0;
  if (mel < linear_end) return mel * 200.0 / 3.0;
  return 1000.0 * exponential(portable_log(6.4) / 27.0 * (mel - linear_end));
}

/// A band: a triangle over some of the strengths, whose area is 1.
struct band {
  std::size_t first = 0;
  std::vector<double> weights;
};

std::vector<band> make_bands(std::uint32_t count) {
  const double highest = 15.0 + portable_log(8.0) / (portable_log(6.4) / 27.0);
  std::vector<double> edges(std::size_t{count} + 2);
  for (std::size_t i = 0; i < edges.size(); ++i)
    edges[i] = hertz_of(highest * static_cast<double>(i) / (count + 1.0));
  std::vector<band> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double left = edges[i], middle = edges[i + 1], right = edges[i + 2];
    for (std::size_t bin = 0; bin < strengths; ++bin) {
      const double hertz = static_cast<double>(bin) * sound_rate / window;
      const double value = std::min((hertz - left) / (middle - left), (right - hertz) / (right - middle));
      if (value <= 0.0) continue;
      if (out[i].weights.empty()) out[i].first = bin;
      out[i].weights.resize(bin - out[i].first);  // a triangle has no gap
      out[i].weights.push_back(value * 2.0 / (right - left));
    }
  }
  return out;
}

/// Frames of a sound in pairs: one is the real part, the other the imaginary one, of one transform.
class frame_reader {
 public:
  explicit frame_reader(std::span<const float> samples)
      : samples_(samples), total_(std::uint64_t{chunks_of(samples.size())} * chunk_samples) {
    for (std::size_t i = 0; i < window; ++i)
      shape_[i] = 0.5 - 0.5 * portable_sine(pi * (2.0 * static_cast<double>(i) / window + 0.5));
  }

  /// Of the frames 2 * pair and the next one.
  void read(std::size_t pair) noexcept {
    for (std::size_t i = 0; i < window; ++i)
      values_[i] = {at(2 * pair, i) * shape_[i], at(2 * pair + 1, i) * shape_[i]};
    transform_.run(values_);
  }
  /// |X|^2 of one of the two.
  void strengths_of(bool second, std::span<double> out) const noexcept {
    for (std::size_t i = 0; i < strengths; ++i) {
      const complex a = values_[i], b = values_[(window - i) % window];
      const complex own = second ? complex{a.im + b.im, b.re - a.re} : complex{a.re + b.re, a.im - b.im};
      out[i] = 0.25 * (own.re * own.re + own.im * own.im);
    }
  }

 private:
  /// Frames are centred; what lies beyond an end is what lies before it, mirrored.
  [[nodiscard]] double at(std::size_t frame, std::size_t index) const noexcept {
    auto place = static_cast<std::int64_t>(frame * sound_hop + index) - static_cast<std::int64_t>(window / 2);
    const auto end = static_cast<std::int64_t>(total_);
    if (place < 0) place = -place;
    if (place >= end) place = 2 * (end - 1) - place;
    const auto from = static_cast<std::size_t>(place);
    return from < samples_.size() ? static_cast<double>(samples_[from]) : 0.0;
  }

  std::span<const float> samples_;
  std::uint64_t total_;
  std::array<double, window> shape_{};
  std::array<complex, window> values_{};
  fourier transform_;
};

}  // namespace

prepared_sound log_mel(std::span<const float> samples, std::uint32_t bins) {
  constexpr double least = 1e-10, range = 8.0;
  constexpr double inverse_ln_10 = 0x1.bcb7b1526e50ep-2;
  prepared_sound out{bins, chunks_of(samples.size()), {}};
  const std::size_t frames = std::size_t{out.chunks} * chunk_frames;
  out.frames.resize(frames * bins);
  const std::vector<band> bands = make_bands(bins);
  frame_reader reader(samples);
  std::array<double, strengths> power{};
  float loudest = -10.0F;  // log10 of the least
  for (std::size_t frame = 0; frame < frames; ++frame) {
    if (frame % 2 == 0) reader.read(frame / 2);
    reader.strengths_of(frame % 2 == 1, power);
    for (std::size_t i = 0; i < bins; ++i) {
      double sum = 0.0;
      for (std::size_t k = 0; k < bands[i].weights.size(); ++k)
        sum += bands[i].weights[k] * power[bands[i].first + k];
      const auto value = static_cast<float>(portable_log(std::max(sum, least)) * inverse_ln_10);
      out.frames[frame * bins + i] = value;
      loudest = std::max(loudest, value);
    }
  }
  for (float& value : out.frames)
    value = static_cast<float>((std::max<double>(value, loudest - range) + 4.0) / 4.0);
  return out;
}

}  // namespace orcd::engine
