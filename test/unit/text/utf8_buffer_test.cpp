#include "engine/text/utf8_buffer.hpp"

#include <boost/test/unit_test.hpp>
#include <random>

using orcd::engine::utf8_buffer;

namespace {

const std::string bad = "\xEF\xBF\xBD";

// Feeds the bytes in pieces of the given size.
std::string feed(std::string_view bytes, std::size_t size) {
  utf8_buffer b;
  std::string out;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(size, bytes.size())))
    out += b.push(bytes.substr(0, size));
  out += b.finish();
  BOOST_TEST(b.empty());
  return out;
}

BOOST_AUTO_TEST_SUITE(utf8_buffer_suite)

BOOST_AUTO_TEST_CASE(holds_back_an_unfinished_code_point) {
  utf8_buffer b;
  BOOST_TEST(b.push("a\xF0\x9F\x98") == "a");
  BOOST_TEST(!b.empty());
  BOOST_TEST(b.push("\x80z") == "\xF0\x9F\x98\x80z");
  BOOST_TEST(b.empty());
}

BOOST_AUTO_TEST_CASE(does_not_wait_for_what_cannot_come) {
  utf8_buffer b;
  BOOST_TEST(b.push("\x80") == bad);        // a lone continuation byte
  BOOST_TEST(b.push("\xC0") == bad);        // leads nothing
  BOOST_TEST(b.push("\xF5") == bad);        // above U+10FFFF
  BOOST_TEST(b.push("\xED") == "");         // may become U+D7FF
  BOOST_TEST(b.push("\xA0") == bad + bad);  // but not a surrogate
  BOOST_TEST(b.push("\xE2\x82") == "");
  BOOST_TEST(b.push("x") == bad + "x");  // one maximal subpart, one replacement
}

BOOST_AUTO_TEST_CASE(end_of_stream_shows_the_unfinished_rest) {
  utf8_buffer b;
  BOOST_TEST(b.push("ok\xF0\x9F\x98") == "ok");
  BOOST_TEST(b.finish() == bad);
  BOOST_TEST(b.finish() == "");
}

// The examples of the Unicode standard, section 3.9, tables 3-8 to 3-11.
BOOST_AUTO_TEST_CASE(replaces_maximal_subparts_as_the_standard_shows) {
  BOOST_TEST(feed("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", 99) ==
             bad + bad + bad + bad + bad + bad + bad + bad + "A");
  BOOST_TEST(feed("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", 99) ==
             bad + bad + bad + bad + bad + bad + bad + bad + "A");
  BOOST_TEST(feed("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", 99) ==
             bad + bad + bad + bad + bad + "A" + bad + bad + "B");
  BOOST_TEST(feed("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", 99) == bad + bad + bad + bad + "A");
}

BOOST_AUTO_TEST_CASE(every_split_gives_the_same_text) {
  std::mt19937 rng(7);
  const std::string_view parts[] = {"a",        "\xC3\xA9", "\xE4\xB8\xAD", "\xF0\x9F\x99\x82",
                                    "\x80",     "\xF0\x9F", "\xED\xA0",     "\xF4\x90",
                                    "\xE0\x80", "\xFF",     "\xC2"};
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += parts[rng() % std::size(parts)];
    const std::string whole = feed(bytes, bytes.size());
    BOOST_TEST(orcd::engine::valid_utf8(bytes) == whole);
    for (std::size_t size = 1; size < 5; ++size) BOOST_TEST(feed(bytes, size) == whole);
    BOOST_TEST(feed(whole, 1) == whole);  // valid already, so nothing changes
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
