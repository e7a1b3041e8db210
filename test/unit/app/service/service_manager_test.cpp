// What systemd is told, and when the watchdog may be fed.
#include "app/service/service_manager.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "app/worker/load_progress.hpp"

namespace {

using namespace std::chrono_literals;
using orcd::app::progress_watchdog;
using orcd::app::service_manager;

progress_watchdog::time at(std::chrono::milliseconds since) {
  return progress_watchdog::time(1h) + since;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(systemd)

BOOST_AUTO_TEST_CASE(states_are_spelled_as_systemd_reads_them) {
  std::vector<std::string> sent;
  service_manager manager([&](const std::string& state) { sent.push_back(state); });
  manager.waiting("a GPU\nREADY=1");
  manager.loading(25);
  manager.ready("Serving x at\nREADY=0");
  manager.stopping(30s);
  manager.failed("no\nluck");
  manager.feed_watchdog();
  const std::vector<std::string> expected{"STATUS=a GPU\\x0aREADY=1\nEXTEND_TIMEOUT_USEC=120000000",
                                          "STATUS=Loading the model: 25 %\nEXTEND_TIMEOUT_USEC=120000000",
                                          "READY=1\nSTATUS=Serving x at\\x0aREADY=0",
                                          "STOPPING=1\nSTATUS=Draining\nEXTEND_TIMEOUT_USEC=40000000",
                                          "STATUS=Failed: no\\x0aluck",
                                          "WATCHDOG=1"};
  BOOST_TEST(sent == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_watchdog_is_fed_while_pings_come_back) {
  progress_watchdog watchdog(5s);
  std::uint64_t answered = 0;
  for (int i = 0; i < 100; ++i) {
    const auto decision = watchdog.tick(at(i * 2500ms), answered);
    BOOST_TEST(decision.feed);
    BOOST_TEST(decision.ping);
    ++answered;
  }
}

BOOST_AUTO_TEST_CASE(a_slow_step_is_tolerated_up_to_the_limit_and_no_further) {
  progress_watchdog watchdog(5s);
  BOOST_TEST(watchdog.tick(at(0ms), 0).ping);
  const auto early = watchdog.tick(at(4999ms), 0);
  BOOST_TEST(early.feed);
  BOOST_TEST(!early.ping);  // at most one ping waits in the GPU thread's queue
  BOOST_TEST(!watchdog.tick(at(5000ms), 0).feed);
  BOOST_TEST(!watchdog.tick(at(60s), 0).feed);
  const auto back = watchdog.tick(at(61s), 1);
  BOOST_TEST(back.feed);
  BOOST_TEST(back.ping);
}

BOOST_AUTO_TEST_CASE(milestones_come_once_and_in_order) {
  using list = std::vector<unsigned>;
  orcd::app::load_progress progress;
  BOOST_TEST(progress.reached(0) == list({0}), boost::test_tools::per_element());
  BOOST_TEST(progress.reached(24).empty());
  BOOST_TEST(progress.reached(60) == list({25, 50}), boost::test_tools::per_element());
  BOOST_TEST(progress.reached(30).empty());
  BOOST_TEST(progress.reached(60).empty());
  BOOST_TEST(progress.reached(250) == list({75, 100}), boost::test_tools::per_element());
  BOOST_TEST(progress.reached(100).empty());
}

BOOST_AUTO_TEST_SUITE_END()
