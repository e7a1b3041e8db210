#include "net/json/json_value.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <utility>

namespace orcd::net {
namespace {

engine::error refusal(const std::string& body) {
  const auto tree = read_json_tree(body);
  BOOST_TEST_REQUIRE(!tree.has_value(), body << " was accepted");
  BOOST_TEST((tree.error().code == engine::errc::invalid_request));
  return tree.error();
}

BOOST_AUTO_TEST_SUITE(json_tree)

BOOST_AUTO_TEST_CASE(a_tree_is_read_as_it_is) {
  const std::string body =
      R"({"a":[1,-2,3.5E0,18446744073709551615,true,null,"x\n\u00e9\ud83d\ude00"],"b":{"c":{},"d":[]}})";
  const auto tree = read_json_tree(body);
  BOOST_TEST_REQUIRE(tree.has_value());
  BOOST_TEST(boost::json::serialize(*tree) == boost::json::serialize(boost::json::parse(body)));
}

BOOST_AUTO_TEST_CASE(numbers_are_the_nearest_to_what_is_written) {
  for (const auto& [text, value] : std::initializer_list<std::pair<const char*, double>>{
           {"100.00000000000001", 0x1.9000000000001p+6},
           {"1000000.0000000001", 0x1.e848000000001p+19},
           {"0.1", 0.1},
           {"-1.7976931348623157e308", -0x1.fffffffffffffp+1023},
           {"1e-7", 1e-7},
           {"4.0", 4.0}}) {
    const auto tree = read_json_tree(std::string(R"({"a":[)") + text + "]}");
    BOOST_TEST_REQUIRE(tree.has_value(), text);
    BOOST_TEST((tree->at("a").at(0).as_double() == value), text);
  }
}

BOOST_AUTO_TEST_CASE(one_byte_order_mark_in_front_is_left_out) {
  const std::string mark = "\xEF\xBB\xBF";
  BOOST_TEST(read_json_tree(mark + R"({"a":1})").value().contains("a"));
  BOOST_TEST(
      refusal(mark + R"({"a":oops})").message.starts_with("the body is not valid JSON at byte 8 of 13"));
  for (const auto& bad :
       {mark, mark + mark + "{}", "{}" + mark, std::string("\xEF\xBB{}"), std::string("\xFE\xFF{}")}) {
    refusal(bad);
  }
}

BOOST_AUTO_TEST_CASE(a_key_that_is_given_twice_is_refused_at_any_depth) {
  BOOST_TEST(refusal(R"({"a":1,"a":1})").param == "a");
  BOOST_TEST(refusal(R"({"m":[{"x":{"role":1,"r":2,"role":3}}]})").message == "'role' is given twice");
  BOOST_TEST(refusal(R"({"a":1,"\u0061":1})").param == "a");
  BOOST_TEST(read_json_tree(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]})").has_value());
  BOOST_TEST(refusal(R"({"":1,"":2})").message == "'' is given twice");
  BOOST_TEST(refusal(R"({"a":{"":1,"x":2,"":3}})").message == "'' is given twice");
}

BOOST_AUTO_TEST_CASE(of_two_mistakes_the_first_is_told) {
  BOOST_TEST(refusal(R"({"a":1,"b":2,"a":3,"b":4})").param == "a");
  BOOST_TEST(refusal(R"({"a":1,"b":2,"b":3,"a":4})").param == "b");
  BOOST_TEST(refusal(R"({"x":1,"x":{"y":1,"y":2}})").param == "x");
  BOOST_TEST(refusal(R"({"x":{"y":1,"y":2},"x":1})").param == "y");
  BOOST_TEST(refusal(R"({"x":1,"x":{"y":1,"y":oops)").param == "x");
  BOOST_TEST(refusal(R"({"x":{"y":1,"y":oops)").param == "y");
  BOOST_TEST(refusal(R"({"a":1,"a":)").param == "a");
  BOOST_TEST(refusal(R"({"a":oops,"a":1})").message.starts_with("the body is not valid JSON at byte 5"));
}

BOOST_AUTO_TEST_CASE(the_last_of_many_keys_may_repeat_the_first) {
  const auto object = [](std::size_t members, const std::string& last) {
    std::string out = "{";
    const std::string prefix(200, 'p');
    for (std::size_t i = 0; i + 1 < members; ++i) out += "\"" + prefix + std::to_string(i) + "\":1,";
    return out + "\"" + prefix + last + "\":1}";
  };
  BOOST_TEST(read_json_tree(object(json_members_max, "last")).has_value());
  BOOST_TEST(refusal(object(json_members_max, "0")).message.ends_with("p...' is given twice"));
  BOOST_TEST(
      refusal("{\"x\":[" + object(json_members_max, "4000") + "]}").message.ends_with("is given twice"));
}

BOOST_AUTO_TEST_CASE(what_is_no_json_object_is_refused) {
  for (const char* body :
       {"", "[]", "1", "null", "{", R"({"a":1}x)", R"({"a":NaN})", R"({"a":"\ud800"})", R"({"a":"\udc00x"})",
        "{\"a\":\"\xff\"}", R"({"a":1,})", "{'a':1}", R"({"a":01})"}) {
    refusal(body);
  }
}

BOOST_AUTO_TEST_CASE(depth_is_bounded) {
  const auto nested = [](std::size_t depth) {
    return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  BOOST_TEST(read_json_tree(nested(json_depth_max - 1)).has_value());
  refusal(nested(json_depth_max));
  refusal(nested(100'000));
}

BOOST_AUTO_TEST_CASE(the_members_of_an_object_are_bounded) {
  const auto object = [](std::size_t members) {
    std::string out;
    for (std::size_t i = 0; i < members; ++i) out += (i > 0 ? ",\"" : "{\"") + std::to_string(i) + "\":1";
    return out + "}";
  };
  BOOST_TEST(read_json_tree(object(json_members_max)).has_value());
  BOOST_TEST(refusal(object(json_members_max + 1)).message ==
             "an object may have 4096 members, the body has more");
  BOOST_TEST(read_json_tree(R"({"x":[)" + object(json_members_max) + "]}").has_value());
  BOOST_TEST(refusal(R"({"a":1,"x":[{"y":)" + object(json_members_max + 1) + "}]}").param == "x");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
