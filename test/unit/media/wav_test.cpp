// WAV files as strangers send them.
#include "engine/media/wav.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

using namespace orcd;

namespace {

void put(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}

std::string chunk(const std::string& name, const std::string& data) {
  std::string out = name;
  put(out, data.size(), 4);
  out += data;
  if (data.size() % 2 != 0) out += '\0';
  return out;
}

std::string format(std::uint32_t tag, std::uint32_t bits, std::uint32_t channels, std::uint32_t rate) {
  std::string out;
  put(out, tag, 2);
  put(out, channels, 2);
  put(out, rate, 4);
  put(out, std::uint64_t{rate} * channels * bits / 8, 4);
  put(out, std::uint64_t{channels} * bits / 8, 2);
  put(out, bits, 2);
  return out;
}

std::string extensible(std::uint32_t tag, std::uint32_t bits, std::uint32_t channels) {
  std::string out = format(0xFFFE, bits, channels, 16'000);
  put(out, 22, 2);
  put(out, bits, 2);
  put(out, 3, 4);
  put(out, tag, 4);
  return out + std::string("\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71", 12);
}

std::string riff(const std::string& chunks) {
  return chunk("RIFF", "WAVE" + chunks);
}

std::string wav(const std::string& kind, const std::string& data) {
  return riff(chunk("fmt ", kind) + chunk("data", data));
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string out;
  for (const T value : values) out.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return out;
}

engine::result<engine::sound> read_all_of(const std::string& file) {
  const auto bytes = std::as_bytes(std::span(file));
  const auto header = engine::read_wav_header(bytes);
  if (!header) return header.error();
  return engine::read_wav(bytes, *header);
}

std::vector<float> samples(const std::string& file) {
  const auto made = read_all_of(file);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
  return made->samples;
}

bool refused(const std::string& file, const std::string& part) {
  const auto made = read_all_of(file);
  if (made) return false;
  BOOST_TEST((made.error().code == engine::errc::invalid_request));
  if (made.error().message.find(part) != std::string::npos) return true;
  BOOST_TEST_MESSAGE(made.error().message);
  return false;
}

using values = std::vector<float>;

}  // namespace

BOOST_AUTO_TEST_SUITE(wav_files)

BOOST_AUTO_TEST_CASE(every_kind_of_sample_is_read) {
  BOOST_TEST((samples(wav(format(1, 8, 1, 8'000), std::string("\x80\x00\xC0", 3))) == values{0, -1, 0.5F}));
  BOOST_TEST((samples(wav(format(1, 16, 1, 16'000), raw<std::int16_t>({16384, -32768, 1}))) ==
              values{0.5F, -1, 1.0F / 32768}));
  BOOST_TEST((samples(wav(format(1, 24, 1, 48'000), std::string("\x00\x00\x40\x00\x00\x80\xFF\xFF\xFF",
                                                                9))) == values{0.5F, -1, -1.0F / 8388608}));
  BOOST_TEST((samples(wav(format(1, 32, 1, 192'000), raw<std::int32_t>({1 << 30, -1 << 30}))) ==
              values{0.5F, -0.5F}));
  BOOST_TEST((samples(wav(format(3, 32, 1, 44'100), raw<float>({0.25F, -2.0F}))) == values{0.25F, -2.0F}));
  BOOST_TEST((samples(wav(format(3, 64, 1, 44'100), raw<double>({0.25, -1e5}))) == values{0.25F, -1e5F}));
  BOOST_TEST((samples(wav(extensible(1, 16, 1), raw<std::int16_t>({8192}))) == values{0.25F}));
  BOOST_TEST((samples(wav(extensible(3, 32, 1), raw<float>({0.125F}))) == values{0.125F}));
}

BOOST_AUTO_TEST_CASE(channels_are_averaged_and_other_chunks_left) {
  const std::string stereo = raw<std::int16_t>({16384, -16384, 32767, 32767});
  const auto mixed = samples(wav(format(1, 16, 2, 16'000), stereo));
  BOOST_TEST((mixed == values{0, 32767.0F / 32768}));
  const std::string many(64, '\xC0');
  BOOST_TEST((samples(wav(format(1, 8, 64, 16'000), many)) == values{0.5F}));
  const std::string sample = raw<std::int16_t>({16384});
  const std::string listed = riff(chunk("LIST", "odd") + chunk("fmt ", format(1, 16, 1, 16'000) + "xx") +
                                  chunk("data", sample) + chunk("LIST", "more"));
  BOOST_TEST((samples(listed) == values{0.5F}));
  // Bytes behind what the file says it has are no part of it.
  BOOST_TEST((samples(listed + "behind") == values{0.5F}));
  BOOST_TEST(read_all_of(listed)->rate == 16'000U);
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_fit_are_refused) {
  const std::string good = wav(format(1, 16, 1, 16'000), raw<std::int16_t>({1, 2}));
  for (std::size_t size = 0; size < good.size(); ++size)
    BOOST_TEST(!read_all_of(good.substr(0, size)).has_value(), size << " bytes were taken");
  auto with = [&](std::size_t at, std::uint32_t value) {
    std::string out = good, bytes;
    put(bytes, value, 4);
    return out.replace(at, 4, bytes);
  };
  constexpr std::size_t riff_size = 4, format_size = 16, data_size = 40;
  BOOST_TEST(refused(with(riff_size, 0xFFFFFFFF), "says it has 4294967303 bytes, but has 48"));
  BOOST_TEST(refused(with(riff_size, 39), "where 3 are left"));
  BOOST_TEST(refused(with(riff_size, 0), "says it has 8 bytes"));
  BOOST_TEST(refused(with(format_size, 0xFFFFFFFF), "a chunk of 4294967295 bytes where 28 are left"));
  BOOST_TEST(refused(with(format_size, 14), "'fmt ' is too short"));
  BOOST_TEST(refused(with(data_size, 5), "a chunk of 5 bytes where 4 are left"));
  BOOST_TEST(refused(with(data_size, 3), "last frame is not whole"));
  BOOST_TEST(refused(with(data_size, 0), "without a sample"));
}

BOOST_AUTO_TEST_CASE(formats_that_are_not_taken_are_named) {
  const std::string data = raw<std::int16_t>({1, 2, 3, 4});
  BOOST_TEST(refused(wav(format(85, 16, 1, 16'000), data), "format 85 with 16 bits"));
  BOOST_TEST(refused(wav(format(1, 12, 1, 16'000), data), "format 1 with 12 bits"));
  BOOST_TEST(refused(wav(format(1, 64, 1, 16'000), data), "format 1 with 64 bits"));
  BOOST_TEST(refused(wav(format(3, 16, 1, 16'000), data), "format 3 with 16 bits"));
  BOOST_TEST(refused(wav(format(1, 16, 0, 16'000), data), "0 channels"));
  BOOST_TEST(refused(wav(format(1, 8, 65, 16'000), std::string(65, 'x')), "65 channels"));
  BOOST_TEST(refused(wav(format(1, 16, 1, 7'999), data), "7999 samples a second"));
  BOOST_TEST(refused(wav(format(1, 16, 1, 192'001), data), "192001 samples a second"));
  std::string odd = format(1, 16, 2, 16'000);
  odd[12] = 2;
  BOOST_TEST(refused(wav(odd, data), "another size than its channels make"));
  std::string unknown = extensible(1, 16, 1);
  unknown.back() = 'x';
  BOOST_TEST(refused(wav(unknown, data), "extensible format that is not known"));
  BOOST_TEST(refused(wav(format(0xFFFE, 16, 1, 16'000), data), "extensible format"));
  BOOST_TEST(refused(riff(chunk("data", data)), "'data' comes before 'fmt '"));
  BOOST_TEST(refused(riff(chunk("fmt ", format(1, 16, 1, 16'000))), "without a chunk 'data'"));
  BOOST_TEST(refused(riff(""), "without a chunk 'fmt '"));
  const std::string twice = chunk("fmt ", format(1, 16, 1, 16'000));
  BOOST_TEST(refused(riff(twice + twice + chunk("data", data)), "two chunks 'fmt '"));
  BOOST_TEST(refused("RIFX" + riff(twice).substr(4), "no WAV file"));
}

BOOST_AUTO_TEST_CASE(samples_that_are_no_numbers_are_refused) {
  const float nan = std::numeric_limits<float>::quiet_NaN(),
              infinite = std::numeric_limits<float>::infinity();
  BOOST_TEST(refused(wav(format(3, 32, 1, 16'000), raw<float>({0.0F, nan})), "no number"));
  BOOST_TEST(refused(wav(format(3, 32, 1, 16'000), raw<float>({infinite})), "no number"));
  BOOST_TEST(refused(wav(format(3, 32, 1, 16'000), raw<float>({-2e6F})), "far too loud"));
  BOOST_TEST(
      refused(wav(format(3, 64, 2, 16'000), raw<double>({0.0, static_cast<double>(nan)})), "no number"));
}

BOOST_AUTO_TEST_SUITE_END()
