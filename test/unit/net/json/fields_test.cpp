#include <boost/test/unit_test.hpp>

#include "net/http/http_url.hpp"
#include "net/http/sse.hpp"
#include "net/json/request_fields.hpp"
#include "net/status/ready_callback.hpp"

namespace orcd::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::system_clock;

system_clock::time_point at_ms(std::int64_t ms) {
  return system_clock::time_point(milliseconds(ms));
}

BOOST_AUTO_TEST_SUITE(request_fields)

BOOST_AUTO_TEST_CASE(deadlines) {
  BOOST_TEST((parse_deadline("2025-10-03T20:00:00Z").value() == at_ms(1'759'521'600'000)));
  BOOST_TEST((parse_deadline("2025-10-03t22:00:00.250+02:00").value() == at_ms(1'759'521'600'250)));
  BOOST_TEST((parse_deadline("2025-10-03T14:30:00.1239999-05:30").value() == at_ms(1'759'521'600'123)));
  BOOST_TEST((parse_deadline(" 1759521600000 ").value() == at_ms(1'759'521'600'000)));
  BOOST_TEST((parse_deadline("0").value() == at_ms(0)));
  for (const char* bad : {"",
                          "soon",
                          "-1",
                          "1e3",
                          "99999999999999999999",
                          "9223372036855",
                          "2025-10-03",
                          "2025-10-03T20:00:00",
                          "2025-13-03T20:00:00Z",
                          "2025-02-30T20:00:00Z",
                          "2025-10-03T24:00:00Z",
                          "2025-10-03T20:60:00Z",
                          "2025-10-03T20:00:61Z",
                          "2025-10-03T20:00:00.Z",
                          "2025-10-03T20:00:00ZZ",
                          "2025-10-03T20:00:00+2:00",
                          "2025-10-03T20:00:00+24:00",
                          "1969-12-31T00:00:00Z",
                          "9999-12-31T00:00:00Z",
                          "2025-10-03X20:00:00Z"}) {
    const auto parsed = parse_deadline(bad);
    BOOST_TEST(!parsed.has_value(), bad);
    BOOST_TEST(parsed.error().param == "X-Deadline");
  }
}

BOOST_AUTO_TEST_CASE(times_are_written_and_read_back) {
  BOOST_TEST(to_rfc3339(at_ms(1'759'521'600'005)) == "2025-10-03T20:00:00.005Z");
  for (const std::int64_t ms : {0LL, 951'782'400'000LL, 1'709'164'799'999LL, 4'102'444'800'001LL}) {
    BOOST_TEST((parse_deadline(to_rfc3339(at_ms(ms))).value() == at_ms(ms)));
  }
}

BOOST_AUTO_TEST_CASE(request_ids) {
  BOOST_TEST(is_request_id("Az09._-"));
  BOOST_TEST(is_request_id(std::string(128, 'a')));
  for (const std::string bad : {"", "a b", "a\r\nSet-Cookie: x", "\xC3\xA9", "a/b"})
    BOOST_TEST(!is_request_id(bad));
  BOOST_TEST(!is_request_id(std::string(129, 'a')));
  const auto id = make_request_id();
  BOOST_TEST(is_request_id(id));
  BOOST_TEST(id.size() == 32U);
  BOOST_TEST(id != make_request_id());
}

BOOST_AUTO_TEST_CASE(callback_urls) {
  const auto plain = parse_http_url("http://pool:9200").value();
  BOOST_TEST(plain.host == "pool");
  BOOST_TEST(plain.port == "9200");
  BOOST_TEST(!plain.tls);
  BOOST_TEST(plain.path == "");
  const auto deep = parse_http_url("https://[::1]/base/").value();
  BOOST_TEST(deep.tls);
  BOOST_TEST(deep.host == "::1");
  BOOST_TEST(deep.port == "443");
  BOOST_TEST(deep.authority == "[::1]");
  BOOST_TEST(deep.path == "/base");
  BOOST_TEST(parse_http_url("https://[::1]:8443").value().port == "8443");
  for (const char* bad :
       {"", "pool:9200", "ftp://pool", "http://", "http://:80", "http://pool:", "http://pool:0",
        "http://pool:65536", "http://pool:8x", "http://a b", "http://pool?x", "http://pool#x", "http://[::1",
        "http://[::1]8", "http://po\xC3\xA9l", "http://pool\r\nX: y"}) {
    BOOST_TEST(!parse_http_url(bad).has_value(), bad);
  }
}

BOOST_AUTO_TEST_CASE(user_info_is_refused_and_never_repeated) {
  const auto refused = parse_http_url("https://user:secret@pool/");
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().message.find("secret") == std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
