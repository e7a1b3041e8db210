// Grammars of plain text: GBNF (Lark has lark_test.cpp), regular expressions and choices.
#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text_checks.hpp"

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;

BOOST_AUTO_TEST_SUITE(text_grammars)

BOOST_AUTO_TEST_CASE(gbnf_takes_what_llama_cpp_documents) {
  expect_texts(grammar::compile_grammar("root ::= \"yes\" | \"no\""), {"yes", "no"},
               {"", "y", "yesno", "maybe"});
  expect_texts(grammar::compile_grammar("root ::= [a-c]+ [^0-9\\n]{2} .? # end\n"),
               {"axy", "abcabc--é", "aaaa狐"}, {"a", "axy12", "dxy", "a\nx"});
  expect_texts(grammar::compile_grammar("# a list\nroot ::= item (\",\" ws item)*\nws ::= [ \\t]*\n\n"
                                        "item ::= [0-9]{1,3} | \"(\" root \")\"\n"),
               {"1", "12, 3,444", "(1,(2),3)"}, {"", "1,", "1234", "(1"});
  expect_texts(grammar::compile_grammar(
                   "root ::= (\n  \"a\" | # first\n  \"b\"\n)* \"\\x41\\u00e9\\U0001F600\\\"\\\\\""),
               {"Aé😀\"\\", "abbaAé😀\"\\"}, {"a", "A"});
  expect_texts(grammar::compile_grammar("root ::=\n  \"a\" |\n  \"b\"\r\n"), {"a", "b"}, {"", "ab"});
  expect_texts(grammar::compile_grammar("root ::= \"a\"? \"b\"{2} \"c\"{1,} [-x] [a-]"),
               {"bbcx-", "abbccc-a"}, {"abcx-", "bbbcx-"});
  // Empty alternatives, loops over what may be empty, and recursion on the right and in the middle.
  expect_texts(grammar::compile_grammar("root ::= | \"a\""), {"", "a"}, {"aa"});
  expect_texts(grammar::compile_grammar("root ::= (\"a\"* e)* \"b\"\ne ::= \"e\"?\n"), {"b", "aeeab"},
               {"", "ba"});
  const std::string many(2'000, 'x');
  expect_texts(grammar::compile_grammar("root ::= \"x\" root | \"\""), {"", "x", many}, {"y"});
  expect_texts(grammar::compile_grammar("root ::= \"(\" root \")\" | \"\""), {"", "(())"}, {"(", "())"});
}

BOOST_AUTO_TEST_CASE(gbnf_takes_a_grammar_of_json) {
  constexpr std::string_view json = R"(root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)";
  expect_texts(grammar::compile_grammar(json), {"{}", R"({"a": [1, -2.5e3, {"b":null}], "c":"x\n狐"} )"},
               {"[]", "{", R"({"a"})", "{\"\x01\":1}"});
}

BOOST_AUTO_TEST_CASE(gbnf_names_the_line_and_column_of_what_it_refuses) {
  const auto refused = [](std::string_view text, std::string_view message) {
    BOOST_TEST_CONTEXT(text) {
      expect_refused_at(grammar::compile_grammar(text), message, "grammar");
    }
  };
  refused("", "1:1: the grammar has no rule \"root\"");
  refused("a ::= \"x\"", "1:1: the grammar has no rule \"root\"");
  refused("root ::= \"a\"\n  | b", "2:3: the name of a rule is expected");
  refused("root ::= \"a\"\nb ::= root c", "2:12: the rule \"c\" is not defined");
  refused("root ::= \"a\"\nroot ::= \"b\"", "2:1: the rule \"root\" is defined twice");
  refused("root ::= \"a", "1:10: the literal has no closing '\"'");
  refused("root ::= \"a\n\"", "1:10: the literal has no closing '\"'");
  refused("root ::= [a", "1:10: the class has no closing ']'");
  refused("root ::= []", "1:10: the class has no characters");
  refused("root ::= [z-a]", "1:11: the range's first character is above its last");
  refused("root ::= (\"a\"", "1:10: there is no ')' for this '('");
  refused("root ::= \"a\")", "1:13: there is no '(' for this ')'");
  refused("root ::= \"a\" & \"b\"", "1:14: this is not understood");
  refused("root ::= *", "1:10: there is nothing to repeat");
  refused("root ::= \"a\"{2001}", "1:14: more than 2000 repetitions are not served");
  refused("root ::= \"a\"{3,2}", "1:13: the repetition's least number is above its most");
  refused("root ::= \"a\"{x}", "1:14: a number is expected");
  refused("root ::= \"a\"{,2}", "1:14: a number is expected");
  refused("root ::= \"a\"{ 1 , 2 ", "1:21: '}' is expected");
  refused("root ::= \"\\q\"", "1:11: unknown escape");
  refused("root ::= \"\\x4\"", "1:11: the escape has too few hexadecimal digits");
  refused("root ::= \"\\ud800\"", "1:11: the escape is no code point");
  refused("root ::= \"\xFF\"", "1:11: the grammar is not UTF-8");
  refused("root ::= <[1000]>", "1:10: references to tokens");
  refused("root ::= !<think>", "1:10: references to tokens");
  refused("root = \"a\"", "1:6: \"::=\" is expected");
  refused("root ::= a\n a ::= a \"x\" | \"y\"", "1:10: the grammar refers to itself");
  refused("root ::= \"x\"? root \"y\" | \"z\"", "1:1: the grammar refers to itself");
  refused("root ::= \"x\" root", "1:1: no finite value satisfies the grammar");
  refused("root ::= " + std::string(100, '('), "1:75: groups are nested more than 64 deep");
  refused("root ::= \"a\"" + std::string(60'000, '?'), "1:77: repetitions are nested more than 64 deep");
  refused(std::string(70'000, '#'), "1:1: the grammar has 70000 bytes, the limit is 65536");
}

BOOST_AUTO_TEST_CASE(gbnf_has_bounds) {
  const auto costs_too_much = [](const std::string& text) {
    const auto compiled = grammar::compile_grammar(text);
    BOOST_REQUIRE(compiled.has_error());
    BOOST_TEST(compiled.error().message.find("the grammar is too ") != std::string::npos,
               compiled.error().message);
  };
  costs_too_much("root ::= (((\"a\"{2000}){2000}){2000}){2000}");
  costs_too_much("root ::= ((((\"\"){2000}){2000}){2000}){2000}");
  costs_too_much("root ::= [ab]* \"a\" [ab]{40}");
  std::string rules = "root ::= \"a\"\n";
  for (int i = 0; rules.size() < 60'000; ++i) rules += "r" + std::to_string(i) + "::=[^a]{1000}\n";
  costs_too_much(rules);
}

BOOST_AUTO_TEST_CASE(a_regular_expression_matches_the_whole) {
  expect_texts(grammar::compile_regex("[a-z]+@[a-z]+\\.com"), {"a@b.com"},
               {"", "a@b.org", " a@b.com", "a@b.com!"});
  expect_texts(grammar::compile_regex("^(yes|no)$"), {"yes", "no"}, {"yesno", "maybe"});
  expect_texts(grammar::compile_regex("a|b$|^c"), {"a", "b", "c"}, {"ab", ""});
  expect_texts(grammar::compile_regex("\"\\\\\n."), {"\"\\\n狐"}, {"\\\"\\\\\\n狐", "\"\\\n\n"});
  expect_texts(grammar::compile_regex(""), {""}, {"a"});
  // Flags, for the whole or for a group.
  expect_texts(grammar::compile_regex("(?i)a[b-c]é"), {"aBé", "ACÉ"}, {"adé"});
  expect_texts(grammar::compile_regex("(?i:k)k[^x]\\W"), {"Kk!-", "\u212Ak1?"}, {"kKx-", "kkak"});
  expect_texts(grammar::compile_regex("(?i)[^k]\\W"), {"a-", "1\u212A"}, {"K-", "\u212A-", "aK"});
  expect_texts(grammar::compile_regex("(?s:.)(?s-s:.)(?P<n>.)"), {"\nab"}, {"a\nb", "ab\n"});
}

BOOST_AUTO_TEST_CASE(a_regular_expression_is_refused_at_its_offset) {
  const auto refused = [](std::string_view pattern, std::string_view message) {
    BOOST_TEST_CONTEXT(pattern) {
      expect_refused_at(grammar::compile_regex(pattern), message, "guided_regex");
    }
  };
  refused("ab)", "offset 2: ");
  refused("abc(d", "offset 5: the pattern has an unmatched '('");
  refused("a(?=b)", "offset 3: the pattern uses a look-ahead");
  refused("a(?i)b", "offset 3: the pattern uses a look-ahead or an inline flag");
  refused("(?m:a)", "offset 2: the pattern uses the flag m");
  refused("(a)\\1", "offset 5: the pattern uses the escape \\1");
  refused("((((a{1000}){1000}){1000}){1000})", "offset 0: the regular expression is too ");
  refused(std::string(3'000, 'a'), "offset 0: the pattern has 3000 bytes, the limit is 2048");
}

BOOST_AUTO_TEST_CASE(a_choice_is_one_of_its_texts) {
  using list = std::vector<std::string>;
  expect_texts(grammar::compile_choice(list{"positive", "pos", "néga\"tive\n"}),
               {"positive", "pos", "néga\"tive\n"}, {"", "posi", "positive "});
  expect_texts(grammar::compile_choice(list{"", "a"}), {"", "a"}, {"aa"});
  expect_refused_at(grammar::compile_choice(list{}), "0: there must be 1 to 4096 choices", "guided_choice");
  expect_refused_at(grammar::compile_choice(list{"a", "\xFF<s>"}), "1: the text is not UTF-8",
                    "guided_choice");
  expect_refused_at(grammar::compile_choice(list(5'000, "a")), "0: there must be 1 to 4096 choices",
                    "guided_choice");
  expect_refused_at(grammar::compile_choice(list{std::string(70'000, 'a')}), "0: there must be 1 to 4096",
                    "guided_choice");
}

BOOST_AUTO_TEST_SUITE_END()
