// Decoding of sounds, in a process that does nothing else.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numbers>
#include <string>
#include <vector>

#include "app/decoder/decode_sound.hpp"
#include "app/media/decoder_process.hpp"
#include "engine/media/resample.hpp"
#include "engine/media/sound_header.hpp"

using namespace orcd;

namespace {

constexpr std::uint32_t seconds_max = 5;

std::string mp3(const std::string& name) {
  std::ifstream file(ORCD_TEST_DATA "/media/files/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::span<const std::byte> as_bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void put(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

/// 16 bits, mono.
std::string wav_of(std::uint32_t rate, const std::vector<std::int16_t>& samples) {
  std::string out = "RIFF";
  put(out, 36 + samples.size() * 2, 4);
  out += "WAVEfmt ";
  put(out, 16, 4);
  put(out, 1, 2);
  put(out, 1, 2);
  put(out, rate, 4);
  put(out, rate * 2, 4);
  put(out, 2, 2);
  put(out, 16, 2);
  out += "data";
  put(out, samples.size() * 2, 4);
  for (const std::int16_t sample : samples) put(out, static_cast<std::uint16_t>(sample), 2);
  return out;
}

/// What test/oracle/media_sounds.py gave to the encoder, averaged over the channels.
double tone(double seconds, double loud) {
  constexpr double turn = 2.0 * std::numbers::pi;
  return loud * (0.4 * std::sin(turn * 440.0 * seconds) + 0.2 * std::sin(turn * 1000.0 * seconds));
}

/// How much of the tones is missing or beside them, apart from the ends.
double distance_from_tones(const engine::sound& made, double loud) {
  const std::size_t edge = made.rate / 20;
  double off = 0.0, size = 0.0;
  for (std::size_t i = edge; i + edge < made.samples.size(); ++i) {
    const double meant = tone(static_cast<double>(i) / made.rate, loud);
    off += std::pow(static_cast<double>(made.samples[i]) - meant, 2);
    size += meant * meant;
  }
  return std::sqrt(off / size);
}

bool names(const engine::result<engine::sound>& made, const std::string& part) {
  if (made) return false;
  BOOST_TEST((made.error().code == engine::errc::invalid_request));
  if (made.error().message.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE(made.error().message);
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sound_decoder)

BOOST_AUTO_TEST_CASE(mp3_files_become_what_was_encoded) {
  const std::string mono = mp3("mono.mp3"), stereo = mp3("stereo.mp3");
  const auto one = app::decode_mp3(as_bytes_of(mono), seconds_max);
  BOOST_REQUIRE_MESSAGE(one.has_value(), (one ? "" : one.error().message));
  BOOST_TEST(one->rate == 16'000U);
  // What the encoder put before and behind is taken away.
  BOOST_TEST(one->samples.size() == 6'400U);
  BOOST_TEST(distance_from_tones(*one, 1.0) < 0.02);
  const auto two = app::decode_mp3(as_bytes_of(stereo), seconds_max);
  BOOST_REQUIRE_MESSAGE(two.has_value(), (two ? "" : two.error().message));
  BOOST_TEST(two->rate == 44'100U);
  BOOST_TEST(distance_from_tones(*two, 0.75) < 0.02);
  BOOST_TEST(distance_from_tones(*two, 1.0) > 0.2);
  const auto header = engine::read_sound_header(as_bytes_of(stereo));
  BOOST_TEST((header->format == engine::sound_format::mp3));
  BOOST_TEST(header->rate == 44'100U);
}

BOOST_AUTO_TEST_CASE(sounds_come_at_the_rate_of_towers) {
  const std::string stereo = mp3("stereo.mp3");
  const auto made = app::decode_sound(as_bytes_of(stereo), seconds_max);
  BOOST_REQUIRE(made.has_value());
  BOOST_TEST(made->rate == engine::sound_rate);
  BOOST_TEST(distance_from_tones(*made, 0.75) < 0.02);
  const std::string wav = wav_of(48'000, std::vector<std::int16_t>(481, 16'384));
  const auto slow = app::decode_sound(as_bytes_of(wav), seconds_max);
  BOOST_REQUIRE(slow.has_value());
  BOOST_TEST(slow->samples.size() == 161U);
  BOOST_TEST(std::fabs(slow->samples[80] - 0.5F) < 1e-6F);
}

BOOST_AUTO_TEST_CASE(what_is_too_long_or_broken_is_named) {
  const std::string mono = mp3("mono.mp3");
  const std::string wav = wav_of(8'000, std::vector<std::int16_t>(8'001));
  BOOST_TEST(names(app::decode_sound(as_bytes_of(wav), 1), "lasts longer than the limit of 1 seconds"));
  std::string twice = mono;
  for (int i = 0; i < 3; ++i) twice += mono;
  BOOST_TEST(names(app::decode_sound(as_bytes_of(twice), 1), "lasts longer than the limit of 1 seconds"));
  BOOST_TEST(names(app::decode_sound(as_bytes_of(mono.substr(0, 20)), 1), "MP3 file that cannot be decoded"));
  BOOST_TEST(names(app::decode_sound({}, 1), "has no bytes"));
  BOOST_TEST(names(app::decode_sound(as_bytes_of(std::string("OggS and more of it")), 1), "WAV and MP3 are"));
  const std::string tag_alone = mp3("stereo.mp3").substr(0, 60);
  BOOST_TEST(names(app::decode_sound(as_bytes_of(tag_alone), 1), "is no sound that is taken"));
  const std::string mixed = mono + mp3("stereo.mp3");
  BOOST_TEST(names(app::decode_sound(as_bytes_of(mixed), seconds_max), "differ in rate or channels"));
}

BOOST_AUTO_TEST_CASE(damaged_mp3_files_end_in_an_answer) {
  const std::string mono = mp3("mono.mp3");
  for (std::size_t at = 0; at < mono.size(); at += 7) {
    std::string damaged = mono;
    for (std::size_t i = at; i < std::min(at + 5, mono.size()); ++i) damaged[i] = static_cast<char>(i * 31);
    const auto made = app::decode_sound(as_bytes_of(damaged), seconds_max);
    if (!made) BOOST_TEST(!made.error().message.empty());
    if (made) BOOST_TEST(made->samples.size() <= std::size_t{seconds_max} * engine::sound_rate);
  }
}

BOOST_AUTO_TEST_CASE(the_process_gives_the_same_samples) {
  app::decoder_process decoder(ORCD_DECODER);
  BOOST_REQUIRE(decoder.start().has_value());
  const std::string wav = wav_of(191'999, std::vector<std::int16_t>(20'000, 1'000));
  for (const std::string& file : {mp3("mono.mp3"), mp3("stereo.mp3"), wav}) {
    const auto here = app::decode_sound(as_bytes_of(file), seconds_max);
    const auto there = decoder.decode_sound(as_bytes_of(file), seconds_max);
    BOOST_REQUIRE_MESSAGE(there.has_value(), (there ? "" : there.error().message));
    BOOST_TEST((here->samples == there->samples));
    BOOST_TEST(there->rate == engine::sound_rate);
  }
  BOOST_TEST(decoder.counts().sounds.decoded == 3U);
  BOOST_TEST(decoder.counts().pictures.decoded == 0U);
  BOOST_TEST(names(decoder.decode_sound(as_bytes_of(mp3("mono.mp3").substr(0, 20)), 1), "MP3 file"));
  BOOST_TEST(decoder.counts().sounds.failed == 1U);
  // The longest of all.
  const std::string large = wav_of(8'000, std::vector<std::int16_t>(8'000 * 600, 99));
  BOOST_TEST(decoder.decode_sound(as_bytes_of(large), 600)->samples.size() == 9'600'000U);
  BOOST_TEST(decoder.counts().sounds.crashed == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
