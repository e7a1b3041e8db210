// Samples on their way to a tower: rates and frames, against soxr and transformers
// (test/oracle/media_sounds.py).
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <numbers>
#include <numeric>

#include "engine/base/sha256.hpp"
#include "engine/media/log_mel.hpp"
#include "engine/media/resample.hpp"
#include "made_sound.hpp"

using namespace orcd;
namespace json = boost::json;

namespace {

json::object facts() {
  std::ifstream file(ORCD_TEST_DATA "/media/sounds.json", std::ios::binary);
  return json::parse(std::string{std::istreambuf_iterator<char>(file), {}}).as_object();
}

std::vector<double> numbers(const json::value& of) {
  std::vector<double> out;
  for (const auto& one : of.as_array()) out.push_back(one.to_number<double>());
  return out;
}

/// From 100 Hz to the highest, that begins and ends softly.
std::vector<float> sweep(std::uint32_t rate, std::size_t count, double highest) {
  const double seconds = static_cast<double>(count) / rate;
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / rate;
    const double turns = 100.0 * t + (highest - 100.0) * t * t / (2.0 * seconds);
    const double loud = std::pow(std::sin(std::numbers::pi * t / seconds), 2);
    out[i] = static_cast<float>(loud * std::sin(2.0 * std::numbers::pi * turns));
  }
  return out;
}

std::vector<float> tone(std::uint32_t rate, double hertz, std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(std::sin(2.0 * std::numbers::pi * hertz * static_cast<double>(i) / rate));
  return out;
}

std::string digest_of(std::span<const float> values) {
  sha256 digest;
  digest.update(std::as_bytes(values));
  return digest.finish().substr(0, 16);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sounds)

BOOST_AUTO_TEST_CASE(frames_are_those_of_transformers) {
  const auto all = facts();
  for (const auto& one : all.at("mel").as_array()) {
    const auto& golden = one.as_object();
    const auto count = golden.at("samples").to_number<std::size_t>();
    const auto bins = golden.at("bins").to_number<std::uint32_t>();
    const auto made = engine::log_mel(test::made_sound(count, bins), bins);
    BOOST_TEST(made.bins == bins);
    BOOST_TEST(made.chunks == golden.at("chunks").to_number<std::uint32_t>());
    BOOST_TEST(made.chunks == engine::chunks_of(count));
    const std::size_t total = std::size_t{made.chunks} * engine::chunk_frames * bins;
    BOOST_REQUIRE_EQUAL(made.frames.size(), total);
    const auto values = numbers(golden.at("values"));
    double worst = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = std::max(worst, std::fabs(values[i] - static_cast<double>(made.frames[i * 7919 * 13 % total])));
    const auto means = numbers(golden.at("means"));
    double worst_mean = 0.0;
    for (std::size_t bin = 0; bin < bins; ++bin) {
      double sum = 0.0;
      for (std::size_t at = bin; at < total; at += bins) sum += static_cast<double>(made.frames[at]);
      worst_mean = std::max(worst_mean, std::fabs(sum * bins / static_cast<double>(total) - means[bin]));
    }
    BOOST_TEST_MESSAGE(count << " samples, " << bins << " bins: " << worst << ", of means " << worst_mean);
    BOOST_TEST(worst < 1e-6);
    BOOST_TEST(worst_mean < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(frames_have_the_bits_that_they_had) {
  // Of any processor and library: a change of one operation changes them.
  BOOST_TEST(digest_of(engine::log_mel(test::made_sound(20'000, 3), 128).frames) == "850e7f667c658464");
  BOOST_TEST(digest_of(engine::resample(test::made_sound(20'000, 4), 44'100, 16'000)) == "29967548892fd283");
}

BOOST_AUTO_TEST_CASE(other_rates_are_those_of_soxr) {
  const auto all = facts();
  for (const auto& one : all.at("rates").as_array()) {
    const auto& golden = one.as_object();
    const auto rate = golden.at("rate").to_number<std::uint32_t>();
    const auto made =
        sweep(rate, golden.at("samples").to_number<std::size_t>(), golden.at("highest").to_number<double>());
    const auto ours = engine::resample(made, rate, engine::sound_rate);
    const auto theirs = numbers(golden.at("out"));
    BOOST_TEST(ours.size() == engine::resampled_count(made.size(), rate, engine::sound_rate));
    BOOST_REQUIRE_EQUAL(theirs.size(), ours.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < ours.size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>(ours[i]) - theirs[i]));
    BOOST_TEST_MESSAGE(rate << ": " << worst);
    BOOST_TEST(worst < 2e-5, rate << ": " << worst);
  }
}

BOOST_AUTO_TEST_CASE(tones_stay_and_what_is_too_high_goes) {
  for (const std::uint32_t rate : {8'000U, 16'001U, 44'100U, 48'000U, 191'999U}) {
    const double hertz = 0.4 * std::min(rate, engine::sound_rate);
    const auto ours = engine::resample(tone(rate, hertz, rate / 8), rate, engine::sound_rate);
    const auto theirs = tone(engine::sound_rate, hertz, ours.size());
    double worst = 0.0;
    for (std::size_t i = 200; i + 200 < ours.size(); ++i)
      worst = std::max(worst, std::fabs(static_cast<double>(ours[i] - theirs[i])));
    BOOST_TEST(worst < 5e-5, rate << ": " << worst);
  }
  for (const double hertz : {8'100.0, 12'000.0, 20'000.0}) {
    const auto ours = engine::resample(tone(48'000, hertz, 12'000), 48'000, engine::sound_rate);
    double loudest = 0.0;
    for (std::size_t i = 200; i + 200 < ours.size(); ++i)
      loudest = std::max(loudest, std::fabs(static_cast<double>(ours[i])));
    BOOST_TEST(loudest < 3e-5, hertz << ": " << loudest);
  }
}

BOOST_AUTO_TEST_CASE(short_sounds_and_their_own_rate_are_left_whole) {
  const std::vector<float> one{0.5F};
  BOOST_TEST(engine::resample(one, 48'000, engine::sound_rate).size() == 1U);
  BOOST_TEST(engine::resample(one, 8'000, engine::sound_rate).size() == 2U);
  const auto some = test::made_sound(777, 1);
  BOOST_TEST((engine::resample(some, 16'000, 16'000) == some));
  const auto silent = engine::log_mel(std::vector<float>(1), 80);
  BOOST_TEST(silent.frames.front() == -1.5F);  // log10 of 1e-10, + 4, / 4
  BOOST_TEST(silent.frames.size() == std::size_t{engine::chunk_frames} * 80);
}

BOOST_AUTO_TEST_SUITE_END()
