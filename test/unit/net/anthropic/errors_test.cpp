#include <boost/test/unit_test.hpp>

#include "net/http/http_request.hpp"
#include "net/http/respond.hpp"
#include "net/http/routes.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::error;

std::string told(const reply& refusal, std::string_view target) {
  http_request request;
  request.method = "POST";
  request.request_id = "r1";
  request.words = words_of(target);
  return render_reply(refusal, request, true);
}

BOOST_AUTO_TEST_SUITE(messages_errors)

BOOST_AUTO_TEST_CASE(every_refusal_is_told_in_the_words_of_the_api) {
  const std::pair<errc, std::string_view> types[] = {
      {errc::invalid_request, "invalid_request_error"},
      {errc::context_length_exceeded, "invalid_request_error"},
      {errc::unauthorized, "authentication_error"},
      {errc::forbidden, "permission_error"},
      {errc::not_found, "not_found_error"},
      {errc::payload_too_large, "request_too_large"},
      {errc::queue_full, "rate_limit_error"},
      {errc::internal, "api_error"},
      {errc::draining, "overloaded_error"},
      {errc::inference_timeout, "timeout_error"},
  };
  for (const auto& [code, type] : types) {
    const std::string text = told(make_error_reply(error(code, "so", "field")), "/v1/messages?beta=true");
    const std::string body = text.substr(text.find("\r\n\r\n") + 4);
    BOOST_TEST(body == R"({"type":"error","error":{"type":")" + std::string(type) +
                           R"(","message":"so"},"request_id":"r1"})");
    BOOST_TEST(text.find("\r\nRequest-Id: r1\r\n") != std::string::npos);
    BOOST_TEST(text.find("\r\nContent-Length: " + std::to_string(body.size()) + "\r\n") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(refusals_of_http_itself_too) {
  const std::string text = told(make_protocol_reply(413, "so"), "/v1/messages/count_tokens");
  BOOST_TEST(text.starts_with("HTTP/1.1 413 "));
  BOOST_TEST(text.find(R"("type":"request_too_large")") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(other_paths_have_other_words) {
  BOOST_TEST((words_of("/v1/messages/batches") == api_words::anthropic));
  for (const std::string_view target : {"/v1/messagesx", "/v1/chat/completions", "/v1/models"}) {
    BOOST_TEST((words_of(target) == api_words::openai));
  }
  BOOST_TEST(told(make_error_reply(error(errc::not_found, "so")), "/v1/models").find(R"("retriable")") !=
             std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
