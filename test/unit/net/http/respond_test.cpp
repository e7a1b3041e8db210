#include "net/http/respond.hpp"

#include <boost/test/unit_test.hpp>

#include "net/http/http_request.hpp"
#include "net/json/json_text.hpp"

namespace orcd::net {
namespace {

using engine::errc;

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
  const std::pair<errc, unsigned> table[] = {{errc::invalid_request, 400},
                                             {errc::context_length_exceeded, 400},
                                             {errc::not_found, 404},
                                             {errc::method_not_allowed, 405},
                                             {errc::duplicate_job, 409},
                                             {errc::conflict, 409},
                                             {errc::payload_too_large, 413},
                                             {errc::queue_full, 429},
                                             {errc::cancelled, 499},
                                             {errc::model_load_failed, 500},
                                             {errc::vram_oom, 500},
                                             {errc::cuda_error, 500},
                                             {errc::internal, 500},
                                             {errc::draining, 503},
                                             {errc::not_ready, 503},
                                             {errc::insufficient_vram, 503},
                                             {errc::worker_start_failed, 503},
                                             {errc::inference_timeout, 504}};
  for (const auto& [code, status] : table) BOOST_TEST(http_status(code) == status, engine::code_name(code));
}

BOOST_AUTO_TEST_CASE(codes_that_clients_of_openai_know) {
  const auto code = [](errc what, const char* param, api_words words) {
    http_request request;
    request.words = words;
    const auto body = render_reply(make_error_reply(engine::error(what, "m", param)), request, true);
    const auto begin = body.find("\"code\":\"") + 8;
    return body.substr(begin, body.find('"', begin) - begin);
  };
  constexpr auto openai = api_words::openai;
  constexpr auto worker = api_words::worker;
  BOOST_TEST(code(errc::context_length_exceeded, "messages", openai) == "context_length_exceeded");
  BOOST_TEST(code(errc::context_length_exceeded, "prompt", worker) == "CONTEXT_LENGTH_EXCEEDED");
  BOOST_TEST(code(errc::not_found, "model", openai) == "model_not_found");
  BOOST_TEST(code(errc::not_found, "", openai) == "NOT_FOUND");
  BOOST_TEST(code(errc::not_found, "previous_response_id", openai) == "previous_response_not_found");
  BOOST_TEST(make_error_reply(engine::error(errc::not_found, "m", "previous_response_id")).status == 400U);
  BOOST_TEST(code(errc::not_found, "model", worker) == "NOT_FOUND");
  BOOST_TEST(code(errc::invalid_request, "model", openai) == "INVALID_REQUEST");
  BOOST_TEST(make_error_reply(engine::error(errc::context_length_exceeded, "m")).code ==
             "CONTEXT_LENGTH_EXCEEDED");
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

BOOST_AUTO_TEST_CASE(ignored_annotations_are_named_in_the_head) {
  auto request = a_request("POST");
  BOOST_TEST(render_stream_head(request, true).find("X-Schema-Ignored") == std::string::npos);
  BOOST_TEST(render_stream_head(request, true).find("X-Tool-Format") == std::string::npos);
  request.generic_tools = true;
  BOOST_TEST(has_line(render_stream_head(request, true), "X-Tool-Format: generic"));
  BOOST_TEST(has_line(render_reply(make_json_reply(200, "{}"), request, true), "X-Tool-Format: generic"));
  request.schema_ignored = "format=uri, format=duration";
  BOOST_TEST(has_line(render_stream_head(request, true), "X-Schema-Ignored: format=uri, format=duration"));
  BOOST_TEST(has_line(render_reply(make_json_reply(200, "{}"), request, true),
                      "X-Schema-Ignored: format=uri, format=duration"));
}

BOOST_AUTO_TEST_CASE(chunks) {
  BOOST_TEST(chunk_of("0123456789abcdef", false) == "10\r\n0123456789abcdef\r\n");
  BOOST_TEST(chunk_of("a", true) == "1\r\na\r\n0\r\n\r\n");
  BOOST_TEST(chunk_of("", true) == "0\r\n\r\n");
  BOOST_TEST(chunk_of("", false).empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
