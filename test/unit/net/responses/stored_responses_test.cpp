// The items of a response as they are listed, and the form in which they are kept.
#include "net/responses/stored_responses.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>

#include "net/responses/input_items.hpp"
#include "net/responses/whole_items.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;

kept_items items_of(const std::string& input) {
  return whole_items(json::parse(input));
}

std::shared_ptr<kept_turn> turn_of(const std::string& input, const std::string& output) {
  return std::make_shared<kept_turn>(
      kept_turn{std::make_shared<const kept_items>(items_of(input)), items_of(output)});
}

std::string listed(const kept_response& response, const std::string& query) {
  const auto page = read_page("/v1/responses/r/input_items?" + query);
  BOOST_TEST_REQUIRE(page.has_value(), query);
  const auto list = list_items(response, *page);
  if (!list) return list.error().param;
  std::string out;
  for (const auto* item : list->items) out += item->id;
  return out + (list->more ? "+" : "");
}

BOOST_AUTO_TEST_SUITE(stored_items)

BOOST_AUTO_TEST_CASE(items_get_what_a_client_may_leave_out) {
  const auto text = items_of("\"hi\"");
  BOOST_TEST_REQUIRE(text.size() == 1U);
  BOOST_TEST(text[0].id.starts_with("msg_"));
  BOOST_TEST(text[0].json == R"({"id":")" + text[0].id +
                                 R"(","type":"message","status":"completed","role":"user",)"
                                 R"("content":[{"type":"input_text","text":"hi"}]})");
  const auto many = items_of(R"([{"id":"m","role":"assistant","content":"a","phase":null},
      {"type":"function_call","id":7,"call_id":"c","name":"f","arguments":"{}"},
      {"type":"reasoning","summary":[],"id":"rs_1","status":null},{"type":"message","role":"assistant"}])");
  BOOST_TEST(many[0].json == R"({"id":"m","type":"message","status":"completed","role":"assistant",)"
                             R"("content":[{"type":"output_text","text":"a","annotations":[]}]})");
  BOOST_TEST(many[1].id.starts_with("fc_"));
  BOOST_TEST(many[2].json == R"({"id":"rs_1","type":"reasoning","summary":[]})");
  BOOST_TEST(json::parse(many[3].json).at("content").as_array().empty());
}

BOOST_AUTO_TEST_CASE(what_is_kept_is_read_as_what_was_sent) {
  const std::string input = R"([{"role":"developer","content":"d"},{"role":"user","content":[
      {"type":"input_text","text":"u"}]},{"type":"reasoning","summary":[],"content":[
      {"type":"reasoning_text","text":"r"}]},{"role":"assistant","content":"a"},
      {"type":"custom_tool_call","call_id":"c","name":"t","input":"x"},
      {"type":"custom_tool_call_output","call_id":"c","output":"y"},{"type":"web_search_call"},
      {"role":"user","content":"z"}])";
  const kept_turns earlier{turn_of(input, R"([{"role":"assistant","content":"b"}])")};
  const auto again = read_input(nullptr, earlier, json::parse(R"("next")"));
  const auto once = read_input(nullptr, {}, json::parse(input));
  BOOST_TEST_REQUIRE(again.has_value());
  json::array expected = *once;
  expected.push_back({{"role", "assistant"}, {"content", "b"}});
  expected.push_back({{"role", "user"}, {"content", "next"}});
  BOOST_TEST(json::serialize(*again) == json::serialize(expected));
}

BOOST_AUTO_TEST_CASE(earlier_items_count) {
  std::string many = "[";
  for (std::size_t i = 0; i < input_items_max; ++i) many += R"({"role":"user","content":"a"},)";
  many.back() = ']';
  BOOST_TEST(read_input(nullptr, {}, json::parse(many)).has_value());
  const kept_turns earlier{turn_of("\"a\"", "[]")};
  BOOST_TEST(read_input(nullptr, earlier, json::parse(many)).error().param == "input");
}

BOOST_AUTO_TEST_CASE(pages) {
  const std::string first =
      R"([{"id":"a","role":"user","content":"x"},{"id":"b","role":"user","content":"x"}])";
  const kept_response response{{turn_of(first, R"([{"id":"c","role":"assistant","content":"x"}])"),
                                turn_of(R"([{"id":"d","role":"user","content":"x"}])",
                                        R"([{"id":"e","role":"assistant","content":"x"}])")},
                               {},
                               {}};
  BOOST_TEST(listed(response, "") == "dcba");
  BOOST_TEST(listed(response, "order=asc") == "abcd");
  BOOST_TEST(listed(response, "order=asc&limit=2") == "ab+");
  BOOST_TEST(listed(response, "limit=4&include[]=x") == "dcba");
  BOOST_TEST(listed(response, "after=c") == "ba");
  BOOST_TEST(listed(response, "after=b&order=asc&limit=1") == "c+");
  BOOST_TEST(listed(response, "after=a") == "");
  BOOST_TEST(listed(response, "after=e") == "after");
  for (const char* wrong : {"limit=0", "limit=101", "limit=x", "limit=", "limit=5x", "limit=-1",
                            "limit=99999999999999999999", "order=up", "order="}) {
    BOOST_TEST(!read_page(std::string("/responses/r/input_items?") + wrong).has_value(), wrong);
  }
}

BOOST_AUTO_TEST_CASE(the_list) {
  const kept_response response{{turn_of(R"([{"id":"a","type":"web_search_call"}])", "[]")}, {}, {}};
  BOOST_TEST(list_items(response, {})->body() ==
             R"({"object":"list","data":[{"id":"a","type":"web_search_call","status":"completed"}],)"
             R"("first_id":"a","last_id":"a","has_more":false})");
  BOOST_TEST(list_items(response, {20, false, "a"})->body() ==
             R"({"object":"list","data":[],"first_id":null,"last_id":null,"has_more":false})");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
