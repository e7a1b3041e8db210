// No text of others forges a line of a terminal or moves its cursor.
#include "app/console/one_line.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::app {
namespace {

BOOST_AUTO_TEST_SUITE(lines_of_standard_error)

BOOST_AUTO_TEST_CASE(text_that_is_text_stays) {
  for (const char* text :
       {"", "plain 'quoted' \\ text", "caf\xc3\xa9 \xe7\x8b\x90 \xf0\x9f\x98\x80", "\xc2\xa0"}) {
    BOOST_TEST(one_line(text) == text);
  }
}

BOOST_AUTO_TEST_CASE(control_characters_are_written_out) {
  BOOST_TEST(one_line("a\nb\r\tc\x1b[2J\x7f") == "a\\x0ab\\x0d\\x09c\\x1b[2J\\x7f");
  BOOST_TEST(one_line(std::string_view("\0x", 2)) == "\\x00x");
  // One of C1 is to many terminals what ESC [ is.
  BOOST_TEST(one_line("\xc2\x9b"
                      "31m") == "\\xc2\\x9b31m");
  BOOST_TEST(one_line("\xe2\x80\xa8|\xe2\x80\xae|\xe2\x81\xa6") ==
             "\\xe2\\x80\\xa8|\\xe2\\x80\\xae|\\xe2\\x81\\xa6");
}

BOOST_AUTO_TEST_CASE(bytes_of_no_text_are_written_out) {
  BOOST_TEST(one_line("a\xff|\xc3|\x9b|\xe2\x82") == "a\\xff|\\xc3|\\x9b|\\xe2\\x82");
  for (int byte = 0; byte < 256; ++byte) {
    for (const char c : one_line(std::string(1, static_cast<char>(byte)))) BOOST_TEST((c >= ' ' && c <= '~'));
  }
}

BOOST_AUTO_TEST_CASE(a_complaint_is_one_line) {
  BOOST_TEST(complaint("worker-orcd", "unknown key 'a\nb'") == "worker-orcd: unknown key 'a\\x0ab'\n");
  BOOST_TEST(complaint("fi\nle", "x") == "fi\\x0ale: x\n");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::app
