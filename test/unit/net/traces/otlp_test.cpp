#include "net/traces/otlp.hpp"

#include <boost/json.hpp>
#include <boost/test/unit_test.hpp>

#include "net/traces/export_backoff.hpp"

namespace orcd::net {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;

trace_span one_span() {
  trace_span span;
  span.trace_id = std::string(32, 'a');
  span.span_id = std::string(16, 'b');
  span.name = "a \"name\"\n";
  span.start_ns = 1'700'000'000'000'000'001;
  span.end_ns = 1'700'000'000'000'000'002;
  span.attributes.push_back({"text", std::string("\xC3\xA9")});
  span.attributes.push_back({"number", std::int64_t{-5}});
  span.attributes.push_back({"list", std::vector<std::string>{"x", "y"}});
  return span;
}

http_answer answer_of(unsigned status, std::string body = {}, std::string retry_after = {}) {
  http_answer out;
  out.status = status;
  out.body = std::move(body);
  out.retry_after = std::move(retry_after);
  return out;
}

BOOST_AUTO_TEST_SUITE(otlp)

BOOST_AUTO_TEST_CASE(a_request_in_json) {
  auto second = one_span();
  second.parent_id = std::string(16, 'c');
  second.tracestate = "a=b";
  second.is_server = second.failed = true;
  second.attributes.clear();
  const std::vector<trace_span> spans = {one_span(), second};
  trace_resource resource;
  resource.attributes = {{"service.name", "w"}};
  resource.version = "1";
  const auto expected = json::parse(R"({"resourceSpans":[{
    "resource":{"attributes":[{"key":"service.name","value":{"stringValue":"w"}}]},
    "scopeSpans":[{"scope":{"name":"worker-orcd","version":"1"},"spans":[
      {"traceId":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","spanId":"bbbbbbbbbbbbbbbb","name":"a \"name\"\n",
       "kind":1,"startTimeUnixNano":"1700000000000000001","endTimeUnixNano":"1700000000000000002",
       "attributes":[{"key":"text","value":{"stringValue":"é"}},{"key":"number","value":{"intValue":"-5"}},
         {"key":"list","value":{"arrayValue":{"values":[{"stringValue":"x"},{"stringValue":"y"}]}}}],
       "status":{}},
      {"traceId":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","spanId":"bbbbbbbbbbbbbbbb","traceState":"a=b",
       "parentSpanId":"cccccccccccccccc","name":"a \"name\"\n","kind":2,
       "startTimeUnixNano":"1700000000000000001","endTimeUnixNano":"1700000000000000002",
       "attributes":[],"status":{"code":2}}]}]}]})");
  BOOST_TEST(json::parse(encode_spans(spans, resource)) == expected);
}

BOOST_AUTO_TEST_CASE(targets) {
  BOOST_TEST(otlp_target(*parse_http_url("http://c:4318"), false) == "/v1/traces");
  BOOST_TEST(otlp_target(*parse_http_url("http://c:4318/"), false) == "/v1/traces");
  BOOST_TEST(otlp_target(*parse_http_url("http://c/base"), false) == "/base/v1/traces");
  BOOST_TEST(otlp_target(*parse_http_url("http://c/own/path"), true) == "/own/path");
  BOOST_TEST(otlp_target(*parse_http_url("http://c/own/path/"), true) == "/own/path/");
  BOOST_TEST(otlp_target(*parse_http_url("http://c/"), true) == "/");
  BOOST_TEST(otlp_target(*parse_http_url("http://c"), true) == "/");
}

BOOST_AUTO_TEST_CASE(resource_attributes) {
  const auto read = parse_resource_attributes("a=1, b = x%2Cy ,c=").value();
  BOOST_TEST_REQUIRE(read.size() == 3U);
  BOOST_TEST(read[1].first == "b");
  BOOST_TEST(read[1].second == "x,y");
  BOOST_TEST(read[2].second == "");
  BOOST_TEST(parse_resource_attributes("").value().empty());
  std::string many;
  for (int i = 0; i < 65; ++i) many += "k" + std::to_string(i) + "=v,";
  for (const std::string& bad : {std::string("a"), std::string("=1"), std::string("a=1,a=2"),
                                 std::string("a=%FF"), std::string(5'000, 'a') + "=1", many}) {
    BOOST_TEST(!parse_resource_attributes(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(what_an_answer_means) {
  BOOST_TEST((judge_export(answer_of(200)).verdict == export_verdict::accepted));
  BOOST_TEST((judge_export(answer_of(200, "nonsense")).verdict == export_verdict::accepted));
  for (const char* body :
       {R"({"partialSuccess":{"rejectedSpans":"3"}})", R"({"partialSuccess":{"rejectedSpans":3}})"}) {
    BOOST_TEST(judge_export(answer_of(200, body)).rejected == 3U);
  }
  BOOST_TEST(judge_export(answer_of(200, R"({"partialSuccess":{"rejectedSpans":-3}})")).rejected == 0U);
  for (const unsigned status : {0U, 429U, 502U, 503U, 504U}) {
    BOOST_TEST((judge_export(answer_of(status)).verdict == export_verdict::later), status);
  }
  for (const unsigned status : {301U, 400U, 404U, 413U, 500U, 501U}) {
    BOOST_TEST((judge_export(answer_of(status)).verdict == export_verdict::refused), status);
  }
  BOOST_TEST((judge_export(answer_of(503, {}, "7")).wait == std::chrono::seconds(7)));
  BOOST_TEST((judge_export(answer_of(503, {}, "99999999999")).wait == std::chrono::seconds(3'600)));
  for (const char* odd : {"", "-1", "soon", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    BOOST_TEST(!judge_export(answer_of(503, {}, odd)).wait.has_value(), odd);
  }
}

BOOST_AUTO_TEST_CASE(waits_grow_up_to_a_limit_and_spans_are_given_up) {
  export_backoff backoff({milliseconds(1'000), milliseconds(4'000), milliseconds(30'000), 3});
  const auto first = backoff.fail({}, 0.0);
  BOOST_TEST(first.wait.count() == 1'000);
  BOOST_TEST(!first.give_up);
  BOOST_TEST(backoff.fail({}, 1.0).wait.count() == 1'000);
  const auto third = backoff.fail({}, 0.0);
  BOOST_TEST(third.wait.count() == 4'000);
  BOOST_TEST(third.give_up);
  backoff.begin_other_spans();
  const auto next = backoff.fail({}, 0.0);
  BOOST_TEST(next.wait.count() == 4'000);
  BOOST_TEST(!next.give_up);
  backoff.succeed();
  BOOST_TEST(backoff.fail({}, 0.0).wait.count() == 1'000);
}

BOOST_AUTO_TEST_CASE(a_collector_may_ask_for_more_time_but_not_for_any) {
  export_backoff backoff(backoff_limits{});
  BOOST_TEST(backoff.fail(milliseconds(7'000), 0.0).wait.count() == 7'000);
  BOOST_TEST(backoff.fail(milliseconds(3'600'000), 0.0).wait.count() == 30'000);
  BOOST_TEST(backoff.fail(milliseconds(0), 0.0).wait.count() == 4'000);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
