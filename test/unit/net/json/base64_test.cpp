#include "net/json/base64.hpp"

#include <boost/test/unit_test.hpp>

namespace orcd::net {
namespace {

BOOST_AUTO_TEST_SUITE(base64)

BOOST_AUTO_TEST_CASE(there_and_back) {
  for (const std::string bytes : {"", "a", "ab", "abc", "abcd", "\xff\xfe", "why\n"}) {
    std::string text = "x";
    append_base64(text, bytes);
    BOOST_TEST(*decode_base64(std::string_view(text).substr(1)) == bytes);
  }
  std::string text;
  append_base64(text, "ab");
  BOOST_TEST(text == "YWI=");
}

BOOST_AUTO_TEST_CASE(what_is_none) {
  for (const std::string_view text :
       {"a", "ab=", "a===", "====", "ab=c", "a b=", "YWI=\n", " YWI", "YW\nI"}) {
    BOOST_TEST(!decode_base64(text).has_value(), text);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
