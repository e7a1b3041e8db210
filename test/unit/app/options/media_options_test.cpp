// The options of pictures and sounds.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "app/options/serving_config.hpp"
#include "test/unit/app/options/parsed_options.hpp"

namespace {

using namespace orcd;

std::vector<std::string> with_projector(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"--mmproj", "p.gguf"});
  return more;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(media_options)

BOOST_AUTO_TEST_CASE(limits_are_taken_within_their_ranges) {
  const auto o = test::taken_options(with_projector({"--image-max-tokens", "512", "--max-images", "2"}));
  BOOST_TEST(o.media.projector == "p.gguf");
  BOOST_TEST(o.media.image_tokens_max == 512U);
  BOOST_TEST(o.media.images_max == 2U);
  BOOST_TEST(test::taken_options(with_projector({"--media-cache-mb", "0"})).media.cache_mib == 0U);
  BOOST_TEST(test::contains(test::refused(with_projector({"--image-max-tokens", "255"})),
                            "must be an integer, 256 to"));
  BOOST_TEST(
      test::contains(test::refused(with_projector({"--max-images", "0"})), "must be an integer, 1 to 1000"));
  BOOST_TEST(test::contains(test::refused(with_projector({"--image-max-bytes", "1"})),
                            "must be an integer, 1024 to"));
  const auto sounds =
      test::taken_options(with_projector({"--audio-max-seconds", "30", "--audio-max-bytes", "2048"}));
  BOOST_TEST(sounds.media.audio_seconds_max == 30U);
  BOOST_TEST(sounds.media.audio_bytes_max == 2'048U);
  BOOST_TEST(test::taken_options(with_projector()).media.audio_seconds_max == 600U);
  BOOST_TEST(test::contains(test::refused(with_projector({"--audio-max-seconds", "3601"})),
                            "must be an integer, 1 to 3600"));
}

BOOST_AUTO_TEST_CASE(both_backends_take_projectors) {
  for (const char* const backend : {"host", "cuda"})
    BOOST_TEST(test::taken_options(with_projector({"--backend", backend})).media.projector == "p.gguf");
}

BOOST_AUTO_TEST_CASE(limits_are_for_a_projector) {
  BOOST_TEST(test::contains(test::refused({"--max-images", "2"}), "needs --mmproj"));
  BOOST_TEST(test::contains(test::refused({"--audio-max-seconds", "2"}), "needs --mmproj"));
}

BOOST_AUTO_TEST_CASE(bodies_may_be_longer_with_a_projector) {
  constexpr std::uint64_t mebibyte = 1U << 20U;
  BOOST_TEST(app::body_bytes_max(test::taken_options({}), 4'096) == mebibyte);
  BOOST_TEST(app::body_bytes_max(test::taken_options(with_projector()), 4'096) == 32 * mebibyte);
  const auto given = test::taken_options(with_projector({"--max-body-bytes", "2048"}));
  BOOST_TEST(app::body_bytes_max(given, 4'096) == 2'048U);
}

BOOST_AUTO_TEST_SUITE_END()
