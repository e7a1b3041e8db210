// A server that lets another one go on with its clients, and one whose request ends servers.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "test/http/engine_pair.hpp"
#include "test/support/wait_until.hpp"

namespace orcd::test {
namespace {

BOOST_AUTO_TEST_SUITE(hand_over)

BOOST_AUTO_TEST_CASE(a_server_that_leaves_in_order_has_not_died_and_may_come_back) {
  const std::string request = execute("j1", 400);
  const auto whole = undisturbed(request);
  fake_holder holder;
  engine_of_a_pair first(holder);
  http_client client(holder.port());
  first.take(client);
  client.send(request);
  std::string all;
  BOOST_TEST_REQUIRE(client.read_up_to(4'000, all));
  first.leave();
  {
    engine_of_a_pair second(holder);
    BOOST_TEST(second.counts().resumed == 1U);
    BOOST_TEST_REQUIRE(client.read_up_to(8'000, all));
    // Its own sessions end without a sign to the client.
    wait_until([&] { return first.sessions() == 0; }, "the first server has no session any more");
    client.read_until("0\r\n\r\n", all);
    BOOST_TEST(told(all) == whole, boost::test_tools::per_element());
    BOOST_TEST(all.find("resumed") == std::string::npos);
    second.leave();
    first.serve();
    BOOST_TEST(first.counts().idle == 1U);
    client.send(execute("j2", 5));
    std::string next;
    BOOST_TEST(client.read_until("0\r\n\r\n", next));
    BOOST_TEST(status_of(next) == 200);
  }
  first.leave();
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(a_request_that_outlives_too_many_engines_is_given_up) {
  fake_holder holder;
  std::vector<std::unique_ptr<engine_of_a_pair>> engines;
  engines.push_back(std::make_unique<engine_of_a_pair>(holder));
  http_client client(holder.port());
  engines.back()->take(client);
  client.send(execute("poison", 2'000));
  std::string all;
  client.read_until("event: token", all);
  for (int deaths = 0; deaths < 3; ++deaths) {
    // Only a death while it runs is a reason to suspect it.
    const std::size_t enough = all.size() + 2'000;
    BOOST_TEST_REQUIRE(client.read_up_to(enough, all));
    BOOST_TEST(all.find("ENGINE_LOST") == std::string::npos);
    engines.back()->stop_for_ever();
    engines.push_back(std::make_unique<engine_of_a_pair>(holder));
  }
  BOOST_TEST(client.read_until("ENGINE_LOST", all));
  engines.back().reset();
  holder.close_all();
}

BOOST_AUTO_TEST_CASE(a_server_that_has_left_begins_nothing_more) {
  fake_holder holder;
  engine_of_a_pair first(holder);
  http_client client(holder.port());
  first.take(client);
  client.send(execute("j1", 2'000));
  std::string all;
  client.read_until("event: token", all);
  first.stop_for_ever();
  // It is to run by itself, so that the others of the dead engine go first.
  engine_of_a_pair second(holder, "same", {}, 1);
  second.leave();
  wait_until([&] { return second.sessions() == 0; }, "the second server has no session any more");
  BOOST_TEST(second.server().device().steps() == 0U);
  holder.close_all();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::test
