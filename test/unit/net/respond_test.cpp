#include "net/respond.hpp"

#include <boost/test/unit_test.hpp>

#include "net/http_request.hpp"
#include "net/json_text.hpp"
#include "net/routes.hpp"

namespace orcd::net {
namespace {

using engine::errc;

const endpoint* reached(const std::variant<endpoint, reply>& route) {
  return std::get_if<endpoint>(&route);
}

http_request a_request(std::string method) {
  http_request r;
  r.method = std::move(method);
  r.request_id = "id-1";
  return r;
}

bool has_line(const std::string& text, const std::string& line) {
  return text.find(line + "\r\n") != std::string::npos;
}

BOOST_AUTO_TEST_SUITE(respond)

BOOST_AUTO_TEST_CASE(statuses_of_the_seed) {
  const std::pair<errc, unsigned> table[] = {
      {errc::invalid_request, 400},   {errc::context_length_exceeded, 400},
      {errc::not_found, 404},         {errc::method_not_allowed, 405},
      {errc::duplicate_job, 409},     {errc::payload_too_large, 413},
      {errc::queue_full, 429},        {errc::cancelled, 499},
      {errc::model_load_failed, 500}, {errc::vram_oom, 500},
      {errc::cuda_error, 500},        {errc::internal, 500},
      {errc::draining, 503},          {errc::not_ready, 503},
      {errc::insufficient_vram, 503}, {errc::worker_start_failed, 503},
      {errc::inference_timeout, 504}};
  for (const auto& [code, status] : table) BOOST_TEST(http_status(code) == status, engine::code_name(code));
}

BOOST_AUTO_TEST_CASE(error_bodies) {
  const auto r = make_error_reply(engine::error(errc::invalid_request, "say \"what\"", "seed"));
  BOOST_TEST(r.body ==
             R"({"error":{"code":"INVALID_REQUEST","message":"say \"what\"","type":"invalid_request_error",)"
             R"("param":"seed","retriable":false}})");
  BOOST_TEST(!r.close);
  const auto full = make_error_reply(engine::error(errc::queue_full, "full"));
  BOOST_TEST(full.retry_after_s > 0U);
  BOOST_TEST(!full.close);
  BOOST_TEST(full.body.find(R"("param":null,"retriable":true)") != std::string::npos);
  const auto draining = make_error_reply(engine::error(errc::draining, "bye"));
  BOOST_TEST(draining.close);
  BOOST_TEST(draining.retry_after_s > 0U);
  BOOST_TEST(make_protocol_reply(413, "x").code == "PAYLOAD_TOO_LARGE");
  BOOST_TEST(make_protocol_reply(431, "x").close);
}

BOOST_AUTO_TEST_CASE(heads) {
  const auto text = render_reply(make_json_reply(202, "{}"), a_request("POST"), true);
  BOOST_TEST(text.starts_with("HTTP/1.1 202 Accepted\r\n"));
  BOOST_TEST(has_line(text, "X-Request-Id: id-1"));
  BOOST_TEST(has_line(text, "Content-Length: 2"));
  BOOST_TEST(text.ends_with("\r\n\r\n{}"));
  BOOST_TEST(text.find("Connection:") == std::string::npos);
  BOOST_TEST(render_reply(make_json_reply(200, "{}"), a_request("HEAD"), true).ends_with("\r\n\r\n"));
  auto refused = make_error_reply(engine::error(errc::draining, "bye"));
  const auto closing = render_reply(refused, a_request("GET"), false);
  BOOST_TEST(has_line(closing, "Connection: close"));
  BOOST_TEST(has_line(closing, "Retry-After: 5"));
  auto old = a_request("GET");
  old.http_1_0 = true;
  BOOST_TEST(has_line(render_reply(make_json_reply(200, "{}"), old, true), "Connection: keep-alive"));
  BOOST_TEST(!has_line(render_stream_head(old, false), "Transfer-Encoding: chunked"));
  const auto stream = render_stream_head(a_request("POST"), true);
  BOOST_TEST(has_line(stream, "Content-Type: text/event-stream"));
  BOOST_TEST(has_line(stream, "Cache-Control: no-cache"));
  BOOST_TEST(has_line(stream, "X-Accel-Buffering: no"));
  BOOST_TEST(has_line(stream, "Transfer-Encoding: chunked"));
}

BOOST_AUTO_TEST_CASE(chunks) {
  BOOST_TEST(chunk_of("0123456789abcdef", false) == "10\r\n0123456789abcdef\r\n");
  BOOST_TEST(chunk_of("a", true) == "1\r\na\r\n0\r\n\r\n");
  BOOST_TEST(chunk_of("", true) == "0\r\n\r\n");
  BOOST_TEST(chunk_of("", false).empty());
}

BOOST_AUTO_TEST_CASE(routes) {
  for (const char* path : {"/health", "/live", "/ready", "/metrics"}) {
    BOOST_TEST(reached(find_route("GET", path)) != nullptr);
    BOOST_TEST(reached(find_route("HEAD", path)) != nullptr);
    BOOST_TEST(reached(find_route("POST", path)) == nullptr);
  }
  for (const char* path : {"/execute", "/cancel", "/shutdown"}) {
    BOOST_TEST(reached(find_route("POST", path)) != nullptr);
    BOOST_TEST(reached(find_route("GET", path)) == nullptr);
    BOOST_TEST(reached(find_route("HEAD", path)) == nullptr);
  }
  BOOST_TEST((*reached(find_route("POST", "http://host:1/cancel?x=/health")) == endpoint::cancel));
  for (const char* path :
       {"//", "//health", "/health/", "/Health", "/%00", "/health%00", "", "health", "/../health"}) {
    const auto route = find_route("GET", path);
    BOOST_TEST_REQUIRE(reached(route) == nullptr, path);
    BOOST_TEST(std::get<reply>(route).status == 404U);
  }
}

BOOST_AUTO_TEST_CASE(wrong_method_says_which_are_right) {
  const auto wrong = std::get<reply>(find_route("DELETE", "/execute"));
  BOOST_TEST(wrong.status == 405U);
  BOOST_TEST(wrong.allow == "POST, OPTIONS");
  const auto options = std::get<reply>(find_route("OPTIONS", "/metrics"));
  BOOST_TEST(options.status == 204U);
  BOOST_TEST(options.allow == "GET, HEAD, OPTIONS");
  BOOST_TEST(std::get<reply>(find_route("OPTIONS", "*")).status == 204U);
  BOOST_TEST(query_of("/metrics?units=ms") == "units=ms");
  BOOST_TEST(query_of("/metrics").empty());
}

BOOST_AUTO_TEST_CASE(json_text) {
  std::string out;
  append_json_string(out, "a\"b\\c\n\r\t\b\f\x01\x1f\x7f/\xC3\xA9");
  BOOST_TEST(out == "\"a\\\"b\\\\c\\n\\r\\t\\b\\f\\u0001\\u001f\x7f/\xC3\xA9\"");
  const std::pair<double, const char*> numbers[] = {
      {0, "0"},     {-0.0, "0"},    {1.5, "1.5"},    {1234.5678, "1234.568"},
      {100, "100"}, {-0.0001, "0"}, {1.0 / 0.0, "0"}};
  for (const auto& [value, text] : numbers) {
    std::string shown;
    append_decimal(shown, value);
    BOOST_TEST(shown == text);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
