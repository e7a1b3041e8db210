// Grammars in Lark's form. What is taken and left here was tried with the lark package (Earley, dynamic
// lexer), but where a grammar is llguidance's own.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "text_checks.hpp"

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;

BOOST_AUTO_TEST_SUITE(lark_grammars)

BOOST_AUTO_TEST_CASE(takes_what_lark_takes_and_nothing_else) {
  const auto data = read_json("lark.json");
  const auto table = grammar::make_token_table(piece_tokenizer(), 257);
  for (const auto& item : data.at("by_hand").as_array()) {
    BOOST_TEST_CONTEXT(text_of(item.at("grammar"))) {
      const auto made = grammar::compile_grammar(text_of(item.at("grammar")));
      BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().message));
      for (const auto& text : item.at("taken").as_array())
        BOOST_TEST(takes(*made, table, text_of(text)), text_of(text));
      for (const auto& text : item.at("left").as_array())
        BOOST_TEST(!takes(*made, table, text_of(text)), text_of(text));
    }
  }
  // Every text over a few letters.
  const std::string letters = text_of(data.at("letters"));
  std::vector<std::string> all{""};
  for (std::size_t begin = 0, size = 0; size < static_cast<std::size_t>(data.at("length").as_int64());
       ++size) {
    const std::size_t end = all.size();
    for (; begin < end; ++begin) {
      for (const char c : letters) all.push_back(all[begin] + c);
    }
  }
  std::size_t compared = 0;
  for (const auto& item : data.at("random").as_array()) {
    const auto made = grammar::compile_grammar(text_of(item.at("grammar")));
    if (!made) {  // one that recurs over another rule, or never ends
      BOOST_TEST((made.error().message.find("refers to itself") != std::string::npos ||
                  made.error().message.find("no finite value") != std::string::npos),
                 text_of(item.at("grammar")) << made.error().message);
      continue;
    }
    ++compared;
    std::set<std::string> taken;
    for (const auto& text : item.at("taken").as_array()) taken.insert(text_of(text));
    for (const std::string& text : all)
      BOOST_TEST(takes(*made, table, text) == taken.contains(text), text_of(item.at("grammar"))
                                                                        << "text " << text);
  }
  BOOST_TEST(compared > 40U);
}

BOOST_AUTO_TEST_CASE(rules_terminals_and_operators) {
  const auto lark = [](std::string_view text, texts taken, texts left) {
    BOOST_TEST_CONTEXT(text) {
      expect_texts(grammar::compile_grammar(text), taken, left);
    }
  };
  lark("start: \"yes\" | \"no\"", {"yes", "no"}, {"", "y", "yesno"});
  lark(
      "// one\n# two\n\n?start: a b? [c] -> end\n!a.2: \"a\"+ // three\nb: B\nc: (\"c\" | D)~2\nB: "
      "\"b\"\nD.-1: \"d\"\n",
      {"a", "aab", "acd", "abdd"}, {"", "b", "ac", "abccc"});
  lark("start: A~2..3 B*\nA: \"x\"i \"y\"\nB: \"0\"..\"4\" | \"ab\"i", {"xyXy", "xyxyXy04aB"},
       {"xy", "xyxyxyxy", "xyxy5"});
  lark("start: \"a\"\n     | \"b\"\n     // between\n\n     | \"c\" x\nx: | \"d\"\n", {"a", "b", "c", "cd"},
       {"", "ad"});
  lark("start:\n  | \"a\"\n  | \"b\"", {"a", "b"}, {"ab"});
  lark("start: (\n  \"a\"\n  | \"b\"\n)* 'it''s' \"\\u00e9\\ud83d\\ude00\\x41\\\"\"",
       {"itsé😀A\"", "abitsé😀A\""}, {"aits"});
  // Without a rule `start` the first one is it, as in vLLM.
  lark("root: item\nitem: \"i\"", {"i"}, {"", "ii"});
  lark("start: _x __Y\n_x: \"x\"\n__Y: \"y\"", {"xy"}, {"x"});
}

BOOST_AUTO_TEST_CASE(a_rule_may_begin_with_itself) {
  const auto sums = grammar::compile_grammar(R"lark(
?start: sum | NAME "=" sum -> assign_var
?sum: product
    | sum "+" product   -> add
    | sum "-" product   -> sub
?product: atom
    | product "*" atom  -> mul
?atom: NUMBER | "-" atom | NAME | "(" sum ")"
%import common.CNAME -> NAME
%import common.NUMBER
%import common.WS_INLINE
%ignore WS_INLINE
)lark");
  expect_texts(sums, {"1", "x = 2+3*-y", "((a)-b)*4.5e3 - c", "1 + 2 "},
               {"", "1+", "(1", "x=", "1\n+2", "a b", " 1"});
  expect_texts(grammar::compile_grammar("start: start \"a\" | start start2 | \"b\"\nstart2: \"c\""),
               {"b", "ba", "bcaac"}, {"", "a", "ab"});
}

BOOST_AUTO_TEST_CASE(what_is_ignored_may_stand_behind_each_terminal) {
  const auto ignoring = grammar::compile_grammar(
      "start: \"a\" B \",\"\nB: \"x\" \"y\"\n%ignore \" \"\n%ignore /#[^\\n]*\\n/ | \"\\t\"+\n");
  expect_texts(ignoring, {"axy,", "a xy , ", "a#no\n\t xy,#\n"}, {"ax y,", " axy,", "a #xy,"});
}

BOOST_AUTO_TEST_CASE(regular_expressions_and_common_terminals) {
  const auto lark = [](std::string_view text, texts taken, texts left) {
    BOOST_TEST_CONTEXT(text) {
      expect_texts(grammar::compile_grammar(text), taken, left);
    }
  };
  lark("start: /[a-c]+\\/\\d/ X?\nX: /k./is", {"ab/1", "a/0k\n", "a/1Kk"}, {"a/", "d/1", "ab/1k"});
  lark("start: /a.b/ /(?s:.*)/", {"a\rb", "axb\n\n狐"}, {"a\nb"});
  lark("%import common (ESCAPED_STRING, SIGNED_NUMBER, WS)\nstart: (ESCAPED_STRING | SIGNED_NUMBER | WS)",
       {"\"\"", "\"a\\\"b\\\\\"", "-1.5e-3", "+7", ".5", "3.", " \n\t"},
       {"\"", "\"a\"b\"", "\"\n\"", "1e", ""});
  lark("start: C_COMMENT\n%import common.C_COMMENT", {"/**/", "/* a * / ***/"}, {"/*/", "/* */ */"});
  lark(
      "start: HEXDIGIT~2 LCASE_LETTER UCASE_LETTER WORD NEWLINE\n%import common.HEXDIGIT\n%import "
      "common.LCASE_LETTER\n"
      "%import common.UCASE_LETTER\n%import common.WORD\n%import common.NEWLINE",
      {"aFzZxy\r\n\n"}, {"agzZx\n", "aFzZx"});
}

BOOST_AUTO_TEST_CASE(what_guidance_writes) {
  expect_texts(grammar::compile_grammar("%llguidance {}\n\nstart: \"Hello \\ud83d\\ude00 \" gen\n"
                                        "gen[capture=\"x\"]: /[a-z]{1,3}/{1,2} obj{,2} end{2}\n"
                                        "obj: %json {\"type\": \"integer\", \"minimum\": 10, \"maximum\": "
                                        "19}\nend[capture]: \"\" | \".\"\n"),
               {"Hello 😀 abc", "Hello 😀 abcdef1217..", "Hello 😀 a."},
               {"Hello 😀 ", "Hello 😀 a9", "Hello 😀 a..."});
  const auto with_format = grammar::compile_grammar(R"(start: %json {"type": "string", "format": "uri"})");
  BOOST_REQUIRE(with_format.has_value());
  BOOST_TEST(grammar::ignored_annotations(**with_format) == std::vector<std::string>{"format=uri"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(one_named_error_at_its_line) {
  const auto refused = [](std::string_view text, std::string_view message) {
    BOOST_TEST_CONTEXT(text) {
      expect_refused_at(grammar::compile_grammar(text), message, "grammar");
    }
  };
  refused("%ignore \" \"", "1:1: the grammar has no rule \"start\"");
  refused("start: a", "1:8: the rule \"a\" is not defined");
  refused("start: A", "1:8: the rule \"A\" is not defined");
  refused("start: \"a\"\nstart: \"b\"", "2:1: the rule \"start\" is defined twice");
  refused("start: A\nA: b\nb: \"b\"", "2:4: a terminal cannot use the rule \"b\"");
  refused("start: A\nA: \"(\" B \")\"\nB: C | \"x\"\nC: A", "2:1: a terminal cannot refer to itself");
  refused("start: A\nA: \"x\" A | \"y\"", "2:1: a terminal cannot refer to itself");
  refused("start: a\na: b \"x\" | \"y\"\nb: a", "1:8: the grammar refers to itself");
  refused("start: \"x\" start", "1:1: no finite value satisfies the grammar");
  refused("start: start \"x\"", "1:1: no finite value satisfies the grammar");
  refused("start: sep{A, \",\"}\nA: \"a\"", "1:8: templates (sep{...}) are not served");
  refused("start: \"a\"\nsep{x, s}: x (s x)*", "2:1: templates (sep{...}) are not served");
  refused("start: \"a\n\"", "1:8: the string has no closing \"");
  refused("start: \"\\q\"", "1:9: unknown escape");
  refused("start: \"\\ud83d\"", "1:9: the escape is no code point");
  refused("start: \"\\ud83d\\ud83d\"", "1:9: the escape is no code point");
  refused("start: \"ab\"..\"c\"", "1:8: a range is of one character");
  refused("start: \"b\"..\"a\"", "1:8: a range is of one character");
  refused("start: \"a\"..b", "1:13: a range is of two characters in quotes");
  refused("start: /a", "1:8: the regular expression has no closing '/'");
  refused("start: \"a\"\n  | /b(?=c)/",
          "2:5: offset 3 of the regular expression: the pattern uses a look-ahead");
  refused("start: /^a/", "1:8: offset 2 of the regular expression: the pattern uses an anchor");
  refused("start: /\\bin\\b/", "1:8: offset 0 of the regular expression: the pattern uses the end of a word");
  refused("start: /a/x", "1:11: the flag x of a regular expression is not served");
  refused("start: \"a\"~2001", "1:12: more than 2000 repetitions are not served");
  refused("start: \"a\"~3..2", "1:11: the repetition's least number is above its most");
  refused("start: *", "1:8: there is nothing to repeat");
  refused("start: \"a\"**", "1:12: there is nothing to repeat");
  refused("start: (\"a\"", "1:8: there is no ')' for this '('");
  refused("start: [\"a\"", "1:8: there is no ']' for this '['");
  refused("start: \"a\")", "1:11: there is no '(' for this ')'");
  refused("start: \"a\" & \"b\"", "1:12: this is not understood");
  refused("start: <|end|>", "1:8: references to tokens");
  refused("start: %regex {}", "1:8: \"%regex\" is not served inside a rule");
  refused("start: %json {\"type\": 1}", "1:8: %json: #/type: a type is a string");
  refused("start: %json {", "1:14: JSON is expected here");
  refused("start: A\nA: %json {}", "2:4: %json cannot be part of a terminal");
  refused("start[stop=\"x\"]: /.*/", "1:7: the attribute \"stop\" is not served");
  refused("start \"a\"", "1:7: \"::=\" is expected after the name of a rule");
  refused("?start \"a\"", "1:8: ':' is expected after the name of a rule");
  refused("?start ::= \"a\"", "1:8: \"::=\" is of GBNF");
  refused("start: \"a\"\nother ::= \"b\"", "2:7: \"::=\" is of GBNF");
  refused("start: \"a\"\n%import common.X", "2:16: \"common\" has no terminal \"X\"");
  refused("start: \"a\"\n%import python.NAME", "2:9: only terminals of \"common\"");
  refused("%import common.WS -> ws\nstart: ws", "1:16: a terminal has a name in capitals");
  refused("%declare A\nstart: A", "1:1: \"%declare\" is not served");
  refused("%llguidance {\"no_forcing\": true}\nstart: \"a\"",
          "1:1: the options of %llguidance are not served");
}

BOOST_AUTO_TEST_CASE(hostile_grammars_end_with_one_error) {
  const auto refused = [](const std::string& text, std::string_view message) {
    expect_refused_at(grammar::compile_grammar(text), message, "grammar");
  };
  const auto costs_too_much = [](const std::string& text) {
    const auto compiled = grammar::compile_grammar(text);
    BOOST_REQUIRE(compiled.has_error());
    BOOST_TEST(compiled.error().message.find("the grammar is too ") != std::string::npos,
               compiled.error().message);
  };
  refused("start: " + std::string(1U << 20U, 'a'), "1:1: the grammar has 1048583 bytes, the limit is 65536");
  refused("start: " + std::string(60'000, '('), "1:73: groups are nested more than 64 deep");
  refused("start: " + std::string(60'000, '['), "1:73: groups are nested more than 64 deep");
  refused("start: %json " + std::string(60'000, '['), "1:14: JSON is expected here");
  costs_too_much("start: (((\"a\"~2000)~2000)~2000)~2000");
  costs_too_much("start: ((((\"\")~2000)~2000)~2000)~2000");
  costs_too_much("start: /[ab]*a[ab]{40}/");
  // A chain as long as the grammar may be: each terminal and each rule uses the next.
  for (const char* first : {"T", "t"}) {
    std::string chain;
    for (int i = 0; chain.size() < 60'000; ++i)
      chain += first + std::to_string(i) + ":" + first + std::to_string(i + 1) + "\n";
    refused(chain + first + "x: \"a\"", std::to_string(std::count(chain.begin(), chain.end(), '\n')) + ":");
  }
  // A circle of them.
  std::string circle = "start: T0\n";
  int count = 0;
  for (; circle.size() < 60'000; ++count)
    circle += "T" + std::to_string(count) + ": T" + std::to_string(count + 1) + "\n";
  refused(circle + "T" + std::to_string(count) + ": T0", "2:1: a terminal cannot refer to itself");
  // Alternatives and lines without end.
  expect_texts(grammar::compile_grammar("start: \"a\"" + std::string(20'000, '\n') + "|" +
                                        std::string(20'000, ' ') + "\"b\""),
               {"a", "b"}, {"ab"});
}

BOOST_AUTO_TEST_SUITE_END()
