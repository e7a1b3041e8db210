// What the exporter of traces tells is counted by then: who reads of it in the log finds it in the metrics.
#include <array>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <future>
#include <string>
#include <string_view>
#include <thread>

#include "net/http/asio.hpp"
#include "net/traces/trace_exporter.hpp"
#include "test/http/http_client.hpp"

namespace orcd::net {
namespace {

constexpr std::chrono::milliseconds patience{test::patience_ms};
constexpr std::string_view answer = "HTTP/1.1 400 No\r\nContent-Length: 99\r\n\r\ncut";

/// Gives one request an answer whose body is cut off.
class refusing_collector {
 public:
  refusing_collector() {
    thread_ = std::jthread([this] {
      tcp::socket client(io_);
      acceptor_.accept(client);
      std::array<char, 4096> request{};
      client.read_some(asio::buffer(request));
      asio::write(client, asio::buffer(answer));
    });
  }
  [[nodiscard]] std::string port() const { return std::to_string(acceptor_.local_endpoint().port()); }

 private:
  asio::io_context io_;
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
  std::jthread thread_;
};

request_trace one_request() {
  request_trace request;
  request.trace_id = std::string(32, 'a');
  request.nonce = "nonce";
  request.method = "GET";
  return request;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(traces_told)

BOOST_AUTO_TEST_CASE(a_refusal_is_counted_when_it_is_told) {
  refusing_collector collector;
  exporter_config config;
  config.address.host = "127.0.0.1";
  config.address.port = collector.port();
  config.target = "/v1/traces";
  config.linger = std::chrono::milliseconds(1);
  std::promise<std::string> told;
  trace_exporter* exporter = nullptr;
  trace_exporter made(config, [&](export_event event, const std::string&) {
    if (event == export_event::failing) told.set_value(exporter->render_metrics());
  });
  exporter = &made;
  made.offer(one_request());
  auto metrics = told.get_future();
  BOOST_REQUIRE(metrics.wait_for(patience) == std::future_status::ready);
  const std::string text = metrics.get();
  BOOST_TEST(text.find("orcd_trace_export_failures_total 1\n") != std::string::npos, text);
  BOOST_TEST(text.find("orcd_trace_spans_dropped_total 0\n") == std::string::npos, text);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::net
