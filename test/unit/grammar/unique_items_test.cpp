// Arrays of unique items, whose earlier items the matcher remembers.
#include <boost/test/unit_test.hpp>
#include <random>
#include <set>

#include "cases.hpp"
#include "piece_tokenizer.hpp"

namespace {

using namespace orcd;
using namespace orcd::test;
namespace grammar = engine::grammar;
namespace json = boost::json;

const piece_tokenizer& vocabulary() {
  static const piece_tokenizer made([] {
    std::vector<std::string> pieces = json_pieces();
    for (const char* more :
         {"[1,1]", "[1,2", ",1]", "1,1", "[\"a\",\"a\"]", "\",\"", "\"a\"", "a\",\"a\"]", "1]"})
      pieces.emplace_back(more);
    return pieces;
  }());
  return made;
}

const auto& table() {
  static const auto made = grammar::make_token_table(vocabulary(), vocabulary().vocab_size());
  return made;
}

json::value unique_of(const char* items) {
  return json::parse(std::string(R"({"type":"array","uniqueItems":true,"items":)") + items + "}");
}

/// Writes an output that ends seldom; every mask agrees with trying each token.
std::string written(const std::shared_ptr<const grammar::program>& program, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  grammar::matcher m(program, table());
  std::vector<engine::token_id> accepted;
  std::string text;
  for (int step = 0; step < 300; ++step) {
    const engine::token_mask mask = m.mask();
    std::vector<engine::token_id> allowed;
    for (engine::token_id token = 0; token <= vocabulary().end(); ++token) {
      if (engine::allows(mask, token)) allowed.push_back(token);
    }
    if (step % 8 == 3) {
      for (engine::token_id token = 0; token < vocabulary().end(); ++token) {
        grammar::matcher fresh(program, table());
        for (const engine::token_id before : accepted) BOOST_REQUIRE(fresh.accept(before));
        BOOST_TEST(fresh.accept(token) == engine::allows(mask, token),
                   text << " and then " << vocabulary().text(token));
      }
    }
    BOOST_REQUIRE_MESSAGE(!allowed.empty(), "nothing can follow " << text << ' ' << m.failure());
    const bool may_end = allowed.back() == vocabulary().end();
    if (may_end && (allowed.size() == 1 || step > 40)) return text;
    if (may_end) allowed.pop_back();
    const engine::token_id token = allowed[random() % allowed.size()];
    BOOST_REQUIRE(m.accept(token));
    accepted.push_back(token);
    text += vocabulary().text(token);
  }
  return {};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(unique_items)

BOOST_AUTO_TEST_CASE(no_item_comes_twice) {
  const auto numbers = compiled(unique_of(R"({"type":"integer"})"));
  for (const char* text : {"[]", "[1]", "[1,2]", "[1, 11,111]", "[\n  0,\n  -1\n]"})
    BOOST_TEST(takes(numbers, table(), text), text);
  for (const char* text : {"[1,1]", "[1, 1]", "[1,2,1]", "[12,12", "[7,8,9,8]", "[1,1 ]"})
    BOOST_TEST(!takes(numbers, table(), text), text);
  const auto texts = compiled(unique_of(R"({"type":"string"})"));
  BOOST_TEST(takes(texts, table(), R"(["a","b","ab","","\"","],\\"])"));
  for (const char* text :
       {R"(["a","a"])", R"(["","a",""])", R"(["\\","\\"])", R"(["],","],"])", R"(["\u0061"])"})
    BOOST_TEST(!takes(texts, table(), text), text);
}

BOOST_AUTO_TEST_CASE(equal_values_have_one_spelling) {
  const auto numbers = compiled(unique_of(R"({"type":"number"})"));
  BOOST_TEST(takes(numbers, table(), "[1,1.5,-0.25,10]"));
  for (const char* text : {"[1.0]", "[1e0]", "[0.50]", "[-0]", "[-0.0]"})
    BOOST_TEST(!takes(numbers, table(), text), text);
  const auto objects = compiled(unique_of(R"({"anyOf":[
      {"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"boolean"}},"required":["b"]},
      {"enum":[{"b":1,"a":true},{"b":2.0,"a":true},1,1.0,-0.0,0,1e14]}]})"));
  BOOST_TEST(takes(objects, table(), R"([{"a":true,"b":1},{"b":1},1,0,{"a":true,"b":2},100000000000000])"));
  for (const char* text : {R"([{"b":1,"a":true}])", R"([{"a":true,"b":1},{"a":true,"b":1}])", "[-0]", "[1,1]",
                           R"([{"a": true,"b":1}])"})
    BOOST_TEST(!takes(objects, table(), text), text);
}

BOOST_AUTO_TEST_CASE(it_never_begins_what_can_only_be_an_earlier_item) {
  // Only "a" and the empty text: after both, nothing but the end.
  const auto two = compiled(unique_of(R"({"type":"string","pattern":"^a?$"})"));
  BOOST_TEST(takes(two, table(), R"(["","a"])"));
  BOOST_TEST(takes(two, table(), R"(["a",""])"));
  const auto follows = [&](const char* before, const char* next) {
    grammar::matcher m(two, table());
    BOOST_REQUIRE(m.accept_text(before));
    return m.accept_text(next);
  };
  BOOST_TEST(!follows(R"(["a",")", "a"));
  BOOST_TEST(follows(R"(["a",")", "\""));
  BOOST_TEST(!follows(R"(["a","")", ","));
  BOOST_TEST(follows(R"(["a","")", "]"));
  const auto both = compiled(json::parse(
      R"({"prefixItems":[{"type":"boolean"},{"type":"boolean"}],"items":false,"uniqueItems":true})"));
  BOOST_TEST(takes(both, table(), "[true,false]"));
  BOOST_TEST(!takes(both, table(), "[true,t"));
}

BOOST_AUTO_TEST_CASE(counts_are_kept) {
  auto schema = unique_of(R"({"type":"integer","minimum":0,"maximum":3})");
  schema.as_object()["minItems"] = 4;
  const auto all = compiled(schema);
  BOOST_TEST(takes(all, table(), "[3,0,2,1]"));
  BOOST_TEST(!takes(all, table(), "[3,0,2]"));
  schema.as_object()["minItems"] = 5;
  BOOST_TEST(grammar::compile_json_schema(schema).has_error());
  auto many = unique_of(R"({"type":"integer"})");
  std::string text = "[0";
  for (int i = 1; i < 64; ++i) text += "," + std::to_string(i);
  BOOST_TEST(takes(compiled(many), table(), text + "]"));
  BOOST_TEST(!takes(compiled(many), table(), text + ",64"));
  many.as_object()["minItems"] = 65;
  BOOST_TEST(grammar::compile_json_schema(many).has_error());
}

BOOST_AUTO_TEST_CASE(masks_leave_out_what_would_come_twice) {
  for (const char* items :
       {R"({"type":"integer","minimum":0,"maximum":12})", R"({"type":"string","maxLength":2})", "{}",
        R"({"type":"number","exclusiveMinimum":0,"maximum":2})",
        R"({"type":"string","pattern":"^(ab|abc|a)$"})",
        R"({"enum":["a","ab","abc","abcd","b",1,11,111,null,[1],[1,1],{"k":"a"}]})",
        R"({"type":"object","properties":{"k":{"enum":["a","b","c"]},"l":{"type":"boolean"}}})",
        R"({"type":"array","items":{"type":"integer","minimum":0,"maximum":2},"maxItems":2})"}) {
    BOOST_TEST_CONTEXT(items) {
      auto schema = unique_of(items);
      if (std::string_view(items) != "{}") schema.as_object()["minItems"] = 3;
      const auto program = compiled(schema);
      for (std::uint64_t seed = 1; seed <= 6; ++seed) {
        const std::string text = written(program, seed);
        if (text.empty()) continue;
        std::set<std::string> seen;
        const json::value parsed = json::parse(text);
        for (const json::value& item : parsed.as_array())
          BOOST_TEST(seen.insert(json::serialize(item)).second, text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(only_the_array_itself_is_bound) {
  const auto inside = compiled(json::parse(R"({"type":"object","properties":{
      "a":{"type":"array","uniqueItems":true,"items":{"type":"integer"}},
      "b":{"type":"array","items":{"type":"integer"}},
      "c":{"type":"array","items":{"type":"array","uniqueItems":true,"items":{"type":"integer"}}}}})"));
  BOOST_TEST(takes(inside, table(), R"({"a":[1,2],"b":[1,1],"c":[[1,2],[1,2],[]]})"));
  BOOST_TEST(!takes(inside, table(),
                    R"({"a":[1,1)"
                    "],"));
  BOOST_TEST(!takes(inside, table(), R"({"c":[[1,2],[3,3]]})"));
  const auto either = compiled(json::parse(R"({"anyOf":[
      {"type":"array","uniqueItems":true,"items":{"type":"array","items":{"type":"integer"}}},
      {"type":"array","items":{"type":"array","uniqueItems":true,"items":{"type":"integer"}}}]})"));
  BOOST_TEST(takes(either, table(), "[[1,2],[2,1]]"));
  BOOST_TEST(!takes(either, table(), "[[1],[1,1],[1]]"));
}

BOOST_AUTO_TEST_SUITE_END()
