// Sizes, cuts and values of pictures, against transformers' processors (test/data/media/pictures.json).
#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "engine/base/sha256.hpp"
#include "engine/media/prepare_picture.hpp"
#include "engine/media/resize.hpp"
#include "made_picture.hpp"

using namespace orcd::engine;
namespace json = boost::json;

namespace {

json::array families() {
  std::ifstream file(ORCD_TEST_DATA "/media/pictures.json");
  return json::parse(std::string(std::istreambuf_iterator<char>(file), {})).as_array();
}

picture_rules rules_of(const json::object& family) {
  picture_rules out;
  const std::string layout(family.at("layout").as_string());
  const std::string filter(family.at("filter").as_string());
  out.layout = layout == "square"    ? picture_layout::square
               : layout == "tiles"   ? picture_layout::tiles
               : layout == "budget"  ? picture_layout::budget
               : layout == "bounded" ? picture_layout::bounded
                                     : picture_layout::multiples;
  out.filter = filter == "bilinear"  ? resize_filter::bilinear
               : filter == "bicubic" ? resize_filter::bicubic
                                     : resize_filter::lanczos;
  const auto number = [&](const char* name) {
    const auto* value = family.if_contains(name);
    return value == nullptr ? 0U : value->to_number<std::uint32_t>();
  };
  out.side = number("side");
  out.longest = number("longest");
  out.factor = number("factor");
  out.patch = number("patch");
  out.merge = number("merge");
  out.rows_max = number("rows_max");
  out.pixels_min = number("pixels_min");
  out.pixels_max = number("pixels_max");
  for (std::size_t c = 0; c < 3; ++c) {
    out.mean[c] = static_cast<float>(family.at("mean").as_array()[c].as_double());
    out.deviation[c] = static_cast<float>(family.at("deviation").as_array()[c].as_double());
  }
  return out;
}

/// Of the values of all views, [channel][row][column], the beginning of their SHA-256.
std::string digest_of(const prepared_picture& prepared, picture_rules rules) {
  std::vector<float> values(768);
  fill_pixel_values(rules, values);
  sha256 digest;
  for (const picture& view : prepared.views) {
    std::vector<float> plane(view.rgb.size());
    const std::size_t area = std::size_t{view.width} * view.height;
    for (std::size_t i = 0; i < area; ++i)
      for (std::size_t c = 0; c < 3; ++c) plane[c * area + i] = values[c * 256 + view.rgb[i * 3 + c]];
    digest.update(std::as_bytes(std::span(plane)));
  }
  return digest.finish().substr(0, 16);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pictures)

BOOST_AUTO_TEST_CASE(values_are_those_of_transformers) {
  std::size_t seen = 0;
  for (const auto& value : families()) {
    const auto& family = value.as_object();
    const picture_rules rules = rules_of(family);
    std::size_t wrong = 0;
    for (const auto& one : family.at("cases").as_array()) {
      const auto& c = one.as_array();
      const auto number = [&](std::size_t i) { return c[i].to_number<std::uint32_t>(); };
      const auto from = orcd::test::made_picture(number(0), number(1));
      const auto detail = number(2) != 0 ? picture_detail::low : picture_detail::automatic;
      const prepared_picture made = prepare_picture(from, rules, detail);
      const bool good = made.views.size() == number(3) && made.views.front().width == number(4) &&
                        made.views.front().height == number(5) &&
                        digest_of(made, rules) == std::string_view(c[6].as_string());
      if (!good && wrong++ == 0) BOOST_TEST_MESSAGE(json::serialize(one));
      ++seen;
    }
    BOOST_TEST(wrong == 0U, family.at("layout").as_string() << " has " << wrong << " that differ");
  }
  BOOST_TEST(seen > 1'500U);
}

BOOST_AUTO_TEST_CASE(a_tiled_picture_says_how_it_was_cut) {
  picture_rules rules{.layout = picture_layout::tiles,
                      .filter = resize_filter::lanczos,
                      .side = 32,
                      .longest = 128,
                      .patch = 8,
                      .merge = 2,
                      .mean = {0.5F, 0.5F, 0.5F},
                      .deviation = {0.5F, 0.5F, 0.5F}};
  const prepared_picture wide = prepare_picture(orcd::test::made_picture(100, 40), rules, {});
  BOOST_TEST(wide.tile_columns == 4U);
  BOOST_TEST(wide.tile_rows == 2U);
  BOOST_TEST(wide.views.size() == 9U);
  BOOST_TEST(tokens_of_view(rules, {32, 32}) == 4U);
  const prepared_picture low = prepare_picture(orcd::test::made_picture(100, 40), rules, picture_detail::low);
  BOOST_TEST(low.tile_rows == 0U);
  BOOST_TEST(low.views.size() == 1U);
}

BOOST_AUTO_TEST_CASE(sizes_without_sense_are_refused_with_their_limits) {
  BOOST_TEST(check_picture_size({640, 480}).has_value());
  BOOST_TEST(check_picture_size({200, 1}).has_value());
  BOOST_TEST(check_picture_size({0, 4}).error().message.find("at least 1") != std::string::npos);
  BOOST_TEST(check_picture_size({201, 1}).error().message.find("200 times") != std::string::npos);
  BOOST_TEST(check_picture_size({40'000, 30'000}).error().message.find("32768") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(low_detail_has_at_most_256_tokens) {
  const picture_rules rules{.layout = picture_layout::multiples,
                            .filter = resize_filter::bicubic,
                            .factor = 28,
                            .pixels_min = 3'136,
                            .pixels_max = 12'845'056,
                            .patch = 14,
                            .merge = 2};
  for (const picture_size of : {picture_size{1'920, 1'080}, {100, 3'000}, {30, 30}}) {
    const picture_size size = view_size(rules, of, picture_detail::low);
    BOOST_TEST(tokens_of_view(rules, size) <= 256U);
    BOOST_TEST(tokens_of_view(rules, size) > 0U);
  }
}

BOOST_AUTO_TEST_CASE(patches_are_in_the_order_of_channels) {
  picture view{4, 2, {}};
  for (int i = 0; i < 24; ++i) view.rgb.push_back(static_cast<std::uint8_t>(i));
  const picture_rules rules{.patch = 2, .deviation = {1.0F, 1.0F, 1.0F}};
  std::vector<float> values(768), out(12);
  fill_pixel_values(rules, values);
  copy_patch(view, rules, 2, 0, values, out);
  const int expected[] = {6, 9, 18, 21, 7, 10, 19, 22, 8, 11, 20, 23};
  for (std::size_t i = 0; i < 12; ++i) BOOST_TEST(out[i] == static_cast<float>(expected[i] * (1.0 / 255.0)));
}

BOOST_AUTO_TEST_SUITE_END()
