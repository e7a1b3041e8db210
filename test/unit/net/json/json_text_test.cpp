// JSON strings of any bytes.
#include "net/json/json_text.hpp"

#include <boost/json/parse.hpp>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>

#include "engine/text/utf8_buffer.hpp"

namespace orcd::net {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

BOOST_AUTO_TEST_SUITE(json_text)

BOOST_AUTO_TEST_CASE(what_json_demands_is_escaped) {
  BOOST_TEST(quoted("a\"\\\n\x01") == R"("a\"\\\n\u0001")");
  BOOST_TEST(quoted("\xC3\xA9 \xF0\x9F\x99\x82") == "\"\xC3\xA9 \xF0\x9F\x99\x82\"");
}

BOOST_AUTO_TEST_CASE(what_is_not_utf8_is_replaced) {
  BOOST_TEST(quoted("\xC2\n\xFF") == "\"\xEF\xBF\xBD\\n\xEF\xBF\xBD\"");
  BOOST_TEST(quoted("a\xF0\x9F") == "\"a\xEF\xBF\xBD\"");
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string bytes;
    for (int i = 0; i < 20; ++i) bytes += static_cast<char>(random() % 2 == 0 ? random() % 256 : 'x');
    const auto read = boost::json::parse(quoted(bytes));
    BOOST_TEST(std::string(read.as_string()) == engine::valid_utf8(bytes));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
