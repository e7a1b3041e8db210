// What headers of pictures say, and that no beginning of a file is read beyond its end.
#include "engine/media/image_header.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>

using namespace orcd::engine;

namespace {

std::string file_of(const std::string& name) {
  std::ifstream file(ORCD_TEST_DATA "/media/files/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

result<image_header> header_of(std::string_view file) {
  return read_image_header(std::as_bytes(std::span(file.data(), file.size())));
}

bool is_refused(std::string_view file, std::string_view with) {
  const auto header = header_of(file);
  if (!header && header.error().message.find(with) != std::string::npos) return true;
  BOOST_TEST_MESSAGE((header ? "taken" : header.error().message));
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(image_headers)

BOOST_AUTO_TEST_CASE(sizes_and_turns_are_those_of_the_files) {
  const auto files = boost::json::parse(file_of("files.json"));
  for (const auto& value : files.as_array()) {
    const auto& one = value.as_array();
    const std::string name(one[0].as_string());
    const auto header = header_of(file_of(name));
    BOOST_REQUIRE_MESSAGE(header.has_value(), name);
    const bool sideways = header->orientation >= 5;
    BOOST_TEST((sideways ? header->height : header->width) == one[1].to_number<std::uint32_t>(), name);
    BOOST_TEST((sideways ? header->width : header->height) == one[2].to_number<std::uint32_t>(), name);
    if (name.starts_with("turn-"))
      BOOST_TEST(header->orientation == static_cast<std::uint32_t>(name[5] - '0'), name);
  }
}

BOOST_AUTO_TEST_CASE(every_beginning_is_judged_within_its_bytes) {
  for (const char* name : {"turn-6.jpg", "progressive.jpg", "turned.png", "palette.png", "turned.webp",
                           "alpha.webp", "lossless.webp", "animated.webp"}) {
    const std::string whole = file_of(name);
    for (std::size_t size = 0; size <= whole.size(); ++size) {
      // Of exactly this size, so that a sanitizer sees what is read behind it.
      const std::vector<char> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      static_cast<void>(read_image_header(std::as_bytes(std::span(part))));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_picture_or_several_is_refused_by_name) {
  BOOST_TEST(is_refused("", "no bytes"));
  BOOST_TEST(is_refused("GIF89a", "GIF"));
  BOOST_TEST(is_refused("BM....", "BMP"));
  BOOST_TEST(is_refused("<svg xmlns=''/>", "SVG"));
  BOOST_TEST(is_refused("hello", "no picture that is known"));
  BOOST_TEST(is_refused(file_of("animated.png"), "animated PNG"));
  BOOST_TEST(is_refused(file_of("animated.webp"), "animated WebP"));
  std::string several = file_of("colour.jpg");
  several.insert(2, std::string("\xFF\xE2\x00\x06MPF\x00", 8));
  BOOST_TEST(is_refused(several, "MPO"));
}

BOOST_AUTO_TEST_CASE(sizes_that_lie_are_told_as_they_are) {
  std::string file = file_of("noise.png");
  file.replace(16, 4, std::string("\x7F\xFF\xFF\xFF", 4));
  BOOST_TEST(header_of(file)->width == 0x7FFFFFFFU);
  file.replace(16, 4, std::string(4, '\0'));
  BOOST_TEST(header_of(file)->width == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
