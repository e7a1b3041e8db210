// What of keys and log level holds after files were read again, in which order whatever they were read.
#include "app/worker/reloads.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "test/support/temporary_directory.hpp"
#include "test/unit/app/worker/told_events.hpp"

namespace {

using namespace orcd;
using app::reload_cause;
using engine::severity;
using levels = std::vector<severity>;

/// A worker whose background threads are the test.
class rereading_worker {
 public:
  void write_keys(const std::string& text) const { std::ofstream(key_file) << text; }

  test::temporary_directory folder;
  const std::string key_file = folder.file("keys");
  net::current_keys held;
  severity asks_for = severity::info;  ///< the log level of the options as they are now
  bool queue_is_full = false;
  std::vector<std::function<void()>> tasks;
  levels set;
  test::told_events log;
  boost::asio::io_context io;
  app::reloads reloads{io,
                       key_file,
                       held,
                       log,
                       {.read_again = [this]() -> engine::result<app::options> {
                          app::options out;
                          out.log_level = asks_for;
                          return out;
                        },
                        .in_background = [this](const net::queued_task& task) -> engine::result<void> {
                          if (queue_is_full) return engine::error(engine::errc::queue_full, "full");
                          tasks.push_back(task.work);
                          return {};
                        },
                        .set_least = [this](severity least) { set.push_back(least); }}};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(reloads)

BOOST_AUTO_TEST_CASE(the_latest_one_holds_although_its_file_was_read_first) {
  rereading_worker worker;
  worker.write_keys("key-of-somebody-0001\n");
  worker.reloads.begin(reload_cause::signal);
  worker.reloads.begin(reload_cause::signal);
  worker.asks_for = severity::debug;
  worker.tasks.at(1)();
  worker.asks_for = severity::error;
  worker.tasks.at(0)();
  worker.io.run();
  BOOST_TEST((worker.set == levels{severity::debug, severity::debug}));
  BOOST_TEST(!worker.reloads.pending());
}

BOOST_AUTO_TEST_CASE(an_operator_does_not_wait_for_clients) {
  rereading_worker worker;
  worker.write_keys("key-of-somebody-0001\n");
  worker.queue_is_full = true;
  worker.reloads.begin(reload_cause::signal);
  BOOST_TEST(worker.tasks.empty());
  worker.io.run();
  BOOST_TEST(worker.log.has("reloaded"));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_changes_nothing) {
  rereading_worker worker;
  worker.reloads.begin(reload_cause::signal);
  worker.tasks.at(0)();
  worker.io.run();
  BOOST_TEST(worker.log.all() == std::vector<std::string>{"reload_failed"}, boost::test_tools::per_element());
  BOOST_TEST(worker.set.empty());
}

BOOST_AUTO_TEST_CASE(whoever_waits_goes_on_when_the_last_file_is_read) {
  rereading_worker worker;
  worker.write_keys("key-of-somebody-0001\n");
  bool went_on = false;
  worker.reloads.when_done([&] { went_on = true; });
  BOOST_TEST(went_on);  // none is being read
  went_on = false;
  worker.reloads.begin(reload_cause::takeover);
  worker.reloads.begin(reload_cause::takeover);
  worker.reloads.when_done([&] { went_on = true; });
  worker.tasks.at(0)();
  worker.io.poll();
  BOOST_TEST(!went_on);
  worker.tasks.at(1)();
  worker.io.restart();
  worker.io.poll();
  BOOST_TEST(went_on);
}

BOOST_AUTO_TEST_SUITE_END()
