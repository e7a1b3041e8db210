#include "net/http/request_head.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

namespace orcd::net {
namespace {

using state = head_scanner::state;
const std::string host = "Host: w\r\n";

state scan_all(const std::string& text, unsigned* status = nullptr) {
  head_scanner scanner({});
  const auto s = scanner.scan(text);
  if (status != nullptr) *status = scanner.problem().status;
  return s;
}

BOOST_AUTO_TEST_SUITE(request_head)

BOOST_AUTO_TEST_CASE(a_good_head_and_what_follows) {
  const std::string head =
      "POST /execute HTTP/1.1\r\n" + host + "Content-Length: 12\r\nExpect: 100-continue\r\n\r\n";
  head_scanner scanner({});
  BOOST_TEST((scanner.scan(head + "{\"a\":1}\n\x01\x00") == state::complete));
  BOOST_TEST(scanner.expects_continue());
}

BOOST_AUTO_TEST_CASE(byte_by_byte_gives_the_same) {
  const std::string head = "GET /health HTTP/1.0\r\nX: y\r\n\r\n";
  head_scanner scanner({});
  for (std::size_t n = 1; n < head.size(); ++n) {
    BOOST_TEST_REQUIRE((scanner.scan(std::string_view(head).substr(0, n)) == state::incomplete));
  }
  BOOST_TEST((scanner.scan(head) == state::complete));
}

BOOST_AUTO_TEST_CASE(one_empty_line_in_front_is_skipped) {
  const std::string head = "GET /health HTTP/1.0\r\n\r\n";
  head_scanner scanner({});
  BOOST_TEST((scanner.scan("\r") == state::incomplete));
  BOOST_TEST((scanner.scan("\r\n" + head) == state::complete));
  BOOST_TEST(scanner.skipped() == 2U);
  head_scanner plain({});
  BOOST_TEST((plain.scan(head) == state::complete));
  BOOST_TEST(plain.skipped() == 0U);
  unsigned status = 0;
  BOOST_TEST((scan_all("\r\n\r\n" + head, &status) == state::refused));
  BOOST_TEST(status == 400U);
  BOOST_TEST((scan_all("\n" + head) == state::refused));
}

BOOST_AUTO_TEST_CASE(refused_with_the_right_status) {
  const std::string post = "POST /x HTTP/1.1\r\n" + host;
  const std::pair<std::string, unsigned> cases[] = {
      {post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
      {post + "Content-Length: 1, 1\r\n\r\n", 400},
      {post + "Content-Length: +1\r\n\r\n", 400},
      {post + "Content-Length: 0x1\r\n\r\n", 400},
      {post + "Content-Length: -1\r\n\r\n", 400},
      {post + "Content-Length: 1 0\r\n\r\n", 400},
      {post + "Content-Length:\r\n\r\n", 400},
      {post + "Content-Length: 18446744073709551617\r\n\r\n", 413},
      {post + "Content-Length: 1048577\r\n\r\n", 413},
      {post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: xchunked\r\n\r\n", 501},
      {post + "Transfer-Encoding: chunked, identity\r\n\r\n", 501},
      {post + "Transfer-Encoding:\x0b"
              "chunked\r\n\r\n",
       400},
      {"POST /x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Host: w\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\nHost: a:80:80\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\nHost: a:port\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\nHost: [::g]\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\nHost: [::1\r\n\r\n", 400},
      {"GET /x HTTP/1.1\r\nHost: :80\r\n\r\n", 400},
      {post + host + "Origin: http://a\r\nOrigin: http://b\r\n\r\n", 400},
      {post + host + "Authorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n", 400},
      {post + host + "Content-Type: text/plain\r\nContent-Type: application/json\r\n\r\n", 400},
      {post + "Expect: 200-maybe\r\n\r\n", 417},
      {post + "A : b\r\n\r\n", 400},
      {post + "A: b\r\n c\r\n\r\n", 400},
      {post + "no colon\r\n\r\n", 400},
      {post + ": empty\r\n\r\n", 400},
      {post + "A: b\n\r\n", 400},
      {post + "A: b\rc\r\n\r\n", 400},
      {post + std::string("A: \0\r\n\r\n", 8), 400},
      {"GET /x HTTP/2.0\r\n" + host + "\r\n", 505},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"GET /x\r\n\r\n", 400},
      {"GET  /x HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /a b HTTP/1.1\r\n" + host + "\r\n", 400},
      {"GET /x http/1.1\r\n" + host + "\r\n", 400},
      {"\r\n\r\nGET /x HTTP/1.1\r\n", 400},
      {std::string("\x16\x03\x01", 3), 400},
      {"G(T /x HTTP/1.1\r\n", 400},
      {"GET /" + std::string(20'000, 'a'), 431}};
  for (const auto& [text, expected] : cases) {
    unsigned status = 0;
    BOOST_TEST((scan_all(text, &status) == state::refused), text);
    BOOST_TEST(status == expected, text.substr(0, 80));
  }
}

BOOST_AUTO_TEST_CASE(at_most_64_fields) {
  std::string head = "GET /x HTTP/1.1\r\n" + host;
  for (int i = 0; i < 63; ++i) head += "A: b\r\n";
  BOOST_TEST((scan_all(head + "\r\n") == state::complete));
  unsigned status = 0;
  BOOST_TEST((scan_all(head + "A: b\r\n\r\n", &status) == state::refused));
  BOOST_TEST(status == 431U);
}

BOOST_AUTO_TEST_CASE(http_1_0_needs_no_host_and_gets_no_100) {
  head_scanner scanner({});
  BOOST_TEST((scanner.scan("POST /x HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n") ==
              state::complete));
  BOOST_TEST(!scanner.expects_continue());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
