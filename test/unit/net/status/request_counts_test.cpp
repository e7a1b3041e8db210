// Requests by route, by whose fault they failed, and by key; and how often the log tells of refusals.
#include "net/status/request_counts.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <utility>

#include "net/status/log_limiter.hpp"

namespace orcd::net {
namespace {

std::string rendered(const request_counts& counts) {
  metrics_text out;
  counts.render(out);
  return std::move(out).take();
}

bool has(const std::string& text, const std::string& line) {
  return text.find("\n" + line + "\n") != std::string::npos;
}

BOOST_AUTO_TEST_SUITE(counts_of_requests)

BOOST_AUTO_TEST_CASE(by_route_and_class_of_status) {
  request_counts counts;
  counts.count("/v1/chat/completions", 200);
  counts.count("/v1/chat/completions", 200);
  counts.count("/v1/chat/completions", 429);
  counts.count("", 404);
  counts.count("/ready", 0);
  const auto text = rendered(counts);
  BOOST_TEST(has(text, R"(worker_http_requests_total{route="/v1/chat/completions",status="2xx"} 2)"));
  BOOST_TEST(has(text, R"(worker_http_requests_total{route="/v1/chat/completions",status="4xx"} 1)"));
  BOOST_TEST(has(text, R"x(worker_http_requests_total{route="(none)",status="4xx"} 1)x"));
  BOOST_TEST(text.find("worker_key_") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(by_whose_fault) {
  using engine::errc;
  request_counts counts;
  for (const auto code : {errc::invalid_request, errc::not_found, errc::unauthorized})
    counts.count(cause_of(code));
  counts.count(cause_of(errc::queue_full));
  counts.count(cause_of(errc::draining));
  counts.count(cause_of(errc::inference_timeout));
  counts.count(cause_of(errc::cuda_error));
  const auto text = rendered(counts);
  BOOST_TEST(has(text, R"(worker_request_failures_total{cause="client"} 3)"));
  BOOST_TEST(has(text, R"(worker_request_failures_total{cause="overload"} 1)"));
  BOOST_TEST(has(text, R"(worker_request_failures_total{cause="unavailable"} 1)"));
  BOOST_TEST(has(text, R"(worker_request_failures_total{cause="deadline"} 1)"));
  BOOST_TEST(has(text, R"(worker_request_failures_total{cause="fault"} 1)"));
}

BOOST_AUTO_TEST_CASE(keys_are_bounded) {
  request_counts counts;
  for (int i = 0; i < 1'100; ++i) counts.add("key" + std::to_string(i), {1, 10, 20});
  counts.add("key0", {1, 1, 1});
  const auto text = rendered(counts);
  BOOST_TEST(has(text, R"(worker_key_requests_total{key_name="key0"} 2)"));
  BOOST_TEST(has(text, R"x(worker_key_requests_total{key_name="(others)"} 76)x"));
  BOOST_TEST(has(text, R"x(worker_key_tokens_in_total{key_name="(others)"} 760)x"));
  BOOST_TEST(text.find("key1050") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_log_tells_of_so_many_a_second) {
  using namespace std::chrono_literals;
  log_limiter limiter(2);
  const log_limiter::clock::time_point begin{100h};
  BOOST_TEST(limiter.may(begin));
  BOOST_TEST(limiter.may(begin + 10ms));
  BOOST_TEST(!limiter.may(begin + 20ms));
  BOOST_TEST(!limiter.may(begin + 999ms));
  BOOST_TEST(limiter.may(begin + 1s));
  BOOST_TEST(limiter.untold() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
