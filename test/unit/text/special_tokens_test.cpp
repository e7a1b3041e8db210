#include "engine/text/special_tokens.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

using orcd::engine::special_token;
using orcd::engine::special_tokens;
using orcd::engine::token_id;

namespace {

// "plain[7]plain": what the partition makes of the text.
std::string cut(const special_tokens& tokens, std::string_view text, bool parse_special = true,
                std::span<const orcd::engine::text_range> left = {}) {
  std::string out;
  tokens.partition(
      text, parse_special, [&](std::string_view plain) { out.append(plain); },
      [&](token_id id) { out += "[" + std::to_string(id) + "]"; }, left);
  return out;
}

BOOST_AUTO_TEST_SUITE(special_tokens_suite)

BOOST_AUTO_TEST_CASE(leftmost_then_longest) {
  special_tokens t;
  t.add("<a>", {1});
  t.add("<a><b>", {2});
  t.add("><", {3});
  BOOST_TEST(cut(t, "x<a>y<a><b>z") == "x[1]y[2]z");
  BOOST_TEST(cut(t, "<a><a>") == "[1][1]");
  BOOST_TEST(cut(t, "b><a>") == "b[3]a>");
}

BOOST_AUTO_TEST_CASE(special_ones_stay_text_when_asked_and_hide_nothing) {
  special_tokens t;
  t.add("<think>", {1, false});
  t.add("<think>x", {2, true});
  BOOST_TEST(cut(t, "<think>xy") == "[2]y");
  BOOST_TEST(cut(t, "<think>xy", false) == "[1]xy");
}

BOOST_AUTO_TEST_CASE(special_ones_have_no_byte_in_a_part_that_is_left) {
  special_tokens t;
  t.add("<a>", {1});
  t.add("<a><a>", {2});
  t.add("<w>", {3, false});
  using parts = std::vector<orcd::engine::text_range>;
  BOOST_TEST(cut(t, "<a>", true, parts{{0, 3}}) == "<a>");
  for (std::size_t at = 0; at < 3; ++at) BOOST_TEST(cut(t, "<a>", true, parts{{at, 1}}) == "<a>");
  BOOST_TEST(cut(t, "<a>x<a>", true, parts{{3, 1}}) == "[1]x[1]");
  BOOST_TEST(cut(t, "<a><a>", true, parts{{3, 1}}) == "[1]<a>");  // the shorter one ends before it
  BOOST_TEST(cut(t, "<a><a><a><a>", true, parts{{3, 3}, {9, 3}}) == "[1]<a>[1]<a>");
  BOOST_TEST(cut(t, "<w><a>", true, parts{{0, 6}}) == "[3]<a>");  // a word of the vocabulary is no control
}

BOOST_AUTO_TEST_CASE(stripping_takes_any_whitespace) {
  special_tokens t;
  t.add("<r>", {1, true, false, true});
  t.add("<l>", {2, true, true, false});
  BOOST_TEST(cut(t, "a <r> \n\xE3\x80\x80 b") == "a [1]b");
  BOOST_TEST(cut(t, "a \xC2\xA0<l> b") == "a[2] b");
  BOOST_TEST(cut(t, "<r>  <l>") == "[1][2]");
}

BOOST_AUTO_TEST_CASE(a_single_word_touches_no_word_character) {
  special_tokens t;
  t.add("tok", {1, true, false, false, true});
  BOOST_TEST(cut(t, "tok, atok toka _tok \xC3\xA9tok (tok)tok\xCC\x81") ==
             "[1], atok toka _tok \xC3\xA9tok ([1])tok\xCC\x81");
}

BOOST_AUTO_TEST_CASE(empty_overlong_and_repeated_texts_are_ignored) {
  special_tokens t;
  t.add("", {1});
  t.add(std::string(special_tokens::max_bytes + 1, 'x'), {2});
  BOOST_TEST(t.empty());
  t.add("<a>", {3});
  t.add("<a>", {4});
  BOOST_TEST(cut(t, "<a>") == "[3]");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
