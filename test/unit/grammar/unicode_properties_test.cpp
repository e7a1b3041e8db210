// \p{...} and \P{...} of general categories and scripts. Python's re has neither, so that the expected texts
// are Unicode's.
#include <boost/test/unit_test.hpp>

#include "cases.hpp"
#include "piece_tokenizer.hpp"

namespace {

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;

bool matches(const char* pattern, std::string_view text) {
  static const auto table = grammar::make_token_table(piece_tokenizer(), 257);
  return takes(compiled({{"type", "string"}, {"pattern", pattern}}), table, text);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(unicode_properties)

BOOST_AUTO_TEST_CASE(categories_by_their_names) {
  for (const char* name : {"Lu", "Uppercase_Letter", "gc=Lu", "General_Category=Uppercase_Letter"}) {
    const std::string pattern = "^\\p{" + std::string(name) + "}$";
    BOOST_TEST(matches(pattern.c_str(), "\"\u00c4\""), name);
    BOOST_TEST(!matches(pattern.c_str(), "\"\u00e4\""), name);
  }
}

BOOST_AUTO_TEST_CASE(categories_in_classes_and_outside) {
  const char* const pattern = "^\\p{Lu}[\\p{Ll}\\p{Nd}-]+\\P{L}$";
  for (const char* text :
       {"\"\u00c4\u00f67-\"", "\"Ab\u0661 \"", "\"\u03a3\u03c3\U0001F600\"", "\"\u042f9\\n\""})
    BOOST_TEST(matches(pattern, text), text);
  for (const char* text : {"\"ab1 \"", "\"AB \"", "\"Abc\"", "\"A \"", "\"A\u72d0 \""})
    BOOST_TEST(!matches(pattern, text), text);
}

BOOST_AUTO_TEST_CASE(what_is_unassigned_is_outside_of_both) {
  BOOST_TEST(!matches("^\\p{C}$", "\"\u0378\""));
  BOOST_TEST(!matches("^\\P{L}$", "\"\u0378\""));
  BOOST_TEST(matches("^\\p{C}$", "\"\ue000\""));
}

// All letters are some 650 ranges.
BOOST_AUTO_TEST_CASE(a_large_category_is_within_the_budget) {
  BOOST_TEST(matches("^\\p{L}+$", "\"\u72d0\u00e9a\""));
  BOOST_TEST(!matches("^\\p{L}+$", "\"\u72d0 a\""));
  BOOST_TEST(matches("^\\p{Lu}\\p{Ll}*$", "\"\u00c4a\u00e9\""));
}

BOOST_AUTO_TEST_CASE(scripts_by_their_names) {
  for (const char* name : {"Script=Greek", "sc=Grek", "sc=Greek", "Script=Grek"}) {
    const std::string pattern = "^\\p{" + std::string(name) + "}+$";
    BOOST_TEST(matches(pattern.c_str(), "\"\u03b1\u0391\u1f00\""), name);
    BOOST_TEST(!matches(pattern.c_str(), "\"a\""), name);
    BOOST_TEST(!matches(pattern.c_str(), "\"\u03b1 \u0391\""), name);
  }
  BOOST_TEST(matches("^[\\p{sc=Hira}\\p{Script=Han}]+$", "\"\u3042\u72d0\""));
  BOOST_TEST(matches("^\\P{Script=Latin}+$", "\"\u3042 1\""));
  BOOST_TEST(!matches("^\\P{Script=Latin}+$", "\"\u3042\u00e9\""));
  BOOST_TEST(matches("^\\p{Script=Common}+$", "\"12 ,\""));
}

BOOST_AUTO_TEST_CASE(other_properties_are_refused) {
  for (const char* name : {"Greek", "Script=greek", "Script=", "Script=Linear_B", "scx=Greek",
                           "Script_Extensions=Greek", "Alphabetic", "gc=Greek"}) {
    const boost::json::object schema{{"type", "string"}, {"pattern", "\\p{" + std::string(name) + "}"}};
    BOOST_TEST(grammar::compile_json_schema(schema).has_error(), name);
  }
}

BOOST_AUTO_TEST_SUITE_END()
