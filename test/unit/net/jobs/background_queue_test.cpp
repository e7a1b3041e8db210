// Whose background task is done next, what is refused, and what the threads make of it.
#include "net/jobs/background_queue.hpp"

#include <boost/test/unit_test.hpp>
#include <future>

#include "net/jobs/background_threads.hpp"
#include "test/support/pause.hpp"

namespace orcd::net {
namespace {

using engine::errc;
using engine::steady_time;
using namespace std::chrono_literals;

constexpr auto brief = task_length::brief;
constexpr auto lengthy = task_length::lengthy;
const steady_time begin{1h};

struct fixture {
  bool add(std::string name, const std::string& tenant, std::uintptr_t connection,
           task_length length = brief) {
    queued_task task;
    task.owner = {tenant, connection};
    task.length = length;
    task.until = begin + 30s;
    task.work = [this, name = std::move(name)] { done += name; };
    return queue.push(task).has_value();
  }
  std::string next(bool brief_only = false) {
    done.clear();
    if (const auto task = queue.pop(brief_only)) task->work();
    return done;
  }
  std::string all() {
    std::string out;
    for (std::string name = next(); !name.empty(); name = next()) out += (out.empty() ? "" : " ") + name;
    return out;
  }
  background_queue queue{background_limits{.of_connection = 3, .of_tenant = 12, .total = 20, .passes = 2}};
  std::string done;
};

BOOST_FIXTURE_TEST_SUITE(background_queues, fixture)

BOOST_AUTO_TEST_CASE(tenants_take_turns_however_much_one_of_them_asks_for) {
  for (std::uintptr_t c = 0; c < 5; ++c) add("a" + std::to_string(c), "a", c);
  add("b0", "b", 10);
  add("c0", "c", 20);
  add("c1", "c", 21);
  BOOST_TEST(all() == "a0 b0 c0 a1 c1 a2 a3 a4");
}

BOOST_AUTO_TEST_CASE(the_connections_of_a_tenant_take_turns) {
  for (const char* name : {"x0", "x1", "x2"}) add(name, "", 1);
  add("y0", "", 2);
  add("z0", "", 3);
  BOOST_TEST(all() == "x0 y0 z0 x1 x2");
}

BOOST_AUTO_TEST_CASE(one_that_comes_back_at_once_waits_for_its_turn) {
  add("a0", "a", 1);
  add("b0", "b", 2);
  BOOST_TEST(next() == "a0");
  add("a1", "a", 1);
  BOOST_TEST(all() == "b0 a1");
}

BOOST_AUTO_TEST_CASE(what_is_brief_goes_first_within_a_tenant_but_takes_no_turn_of_another) {
  add("L", "a", 1, lengthy);
  add("s0", "a", 2);
  add("M", "b", 3, lengthy);
  BOOST_TEST(all() == "s0 M L");
}

BOOST_AUTO_TEST_CASE(a_lengthy_one_is_passed_over_so_often_and_no_more) {
  add("L", "", 1, lengthy);
  for (std::uintptr_t c = 2; c < 8; ++c) add("s" + std::to_string(c), "", c);
  BOOST_TEST(all() == "s2 s3 L s4 s5 s6 s7");
}

BOOST_AUTO_TEST_CASE(a_steady_flow_of_brief_ones_starves_no_lengthy_one) {
  add("L", "", 1, lengthy);
  int passed = 0;
  for (std::uintptr_t c = 2; next() != "L"; ++c, ++passed) {
    add("s", "", c);
    add("s", "", c + 1'000);
    BOOST_TEST_REQUIRE(passed < 10);
  }
  BOOST_TEST(passed <= 3);
}

BOOST_AUTO_TEST_CASE(who_takes_brief_ones_only_leaves_the_others_where_they_are) {
  add("L", "a", 1, lengthy);
  add("M", "b", 2, lengthy);
  BOOST_TEST(!queue.has_next(true));
  BOOST_TEST(queue.has_next());
  BOOST_TEST(next(true) == "");
  add("s", "b", 3);
  BOOST_TEST(queue.has_next(true));
  BOOST_TEST(next(true) == "s");
  BOOST_TEST(all() == "L M");
}

BOOST_AUTO_TEST_CASE(a_connection_a_tenant_and_the_whole_have_limits_of_their_own) {
  for (int i = 0; i < 3; ++i) BOOST_TEST(add("a", "a", 1));
  BOOST_TEST(!add("a", "a", 1));
  for (std::uintptr_t c = 2; c < 11; ++c) BOOST_TEST(add("a", "a", c));
  BOOST_TEST(!add("a", "a", 11));
  for (std::uintptr_t c = 20; c < 28; ++c) BOOST_TEST(add("b", "b", c));
  queued_task task;
  task.owner = {"c", 30};
  const auto refused = queue.push(task);
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == errc::queue_full));
  BOOST_TEST(refused.error().message == "20 requests wait to be read or to be answered");
  BOOST_TEST(queue.size() == 20U);
  BOOST_TEST(!next().empty());
  BOOST_TEST(add("c", "c", 30));
}

BOOST_AUTO_TEST_CASE(what_nobody_waits_for_any_more_gives_its_place_back) {
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  for (std::uintptr_t c = 0; c < 3; ++c) {
    queued_task task;
    task.owner = {"a", c};
    task.until = begin + std::chrono::seconds(c);
    if (c == 2) task.abandoned = gone;
    BOOST_TEST(queue.push(task).has_value());
  }
  add("b", "b", 9);
  BOOST_TEST(queue.take_unwanted(begin - 1s).empty());
  BOOST_TEST(queue.take_unwanted(begin).size() == 1U);
  *gone = true;
  BOOST_TEST(queue.take_unwanted(begin).size() == 1U);
  BOOST_TEST(queue.size() == 2U);
  BOOST_TEST(queue.take_unwanted(begin + 1s).size() == 1U);
  BOOST_TEST(all() == "b");
  BOOST_TEST(queue.size() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

/// A background task of that length; the future says that it was done.
std::future<void> ask(background_threads& threads, task_length length, std::uintptr_t connection,
                      std::function<void()> what = {}) {
  const auto done = std::make_shared<std::promise<void>>();
  queued_task task;
  task.owner.connection = connection;
  task.length = length;
  task.until = std::chrono::steady_clock::now() + 10min;
  task.work = [done, what = std::move(what)] {
    if (what) what();
    done->set_value();
  };
  BOOST_TEST(threads.take(std::move(task)).has_value());
  return done->get_future();
}

BOOST_AUTO_TEST_SUITE(background_work)

BOOST_AUTO_TEST_CASE(a_lengthy_task_holds_up_no_brief_one) {
  background_threads threads;
  BOOST_TEST_REQUIRE(threads.start().has_value());
  std::promise<void> release;
  auto held = ask(threads, lengthy, 1, [future = release.get_future().share()] { future.wait(); });
  auto next_lengthy = ask(threads, lengthy, 2);
  for (std::uintptr_t c = 3; c < 20; ++c) ask(threads, brief, c).get();
  BOOST_TEST((next_lengthy.wait_for(0s) == std::future_status::timeout));
  release.set_value();
  held.get();
  next_lengthy.get();
}

BOOST_AUTO_TEST_CASE(what_is_abandoned_makes_room_and_is_not_done) {
  background_threads threads(background_limits{.of_connection = 1, .of_tenant = 2, .total = 2, .passes = 8});
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  bool done = false;
  for (std::uintptr_t c = 0; c < 2; ++c) {
    queued_task task;
    task.owner.connection = c;
    task.until = std::chrono::steady_clock::now() + 10min;
    task.abandoned = gone;
    task.work = [&done] { done = true; };
    BOOST_TEST(threads.take(std::move(task)).has_value());
  }
  queued_task one_more;
  one_more.owner.connection = 7;
  one_more.until = std::chrono::steady_clock::now() + 10min;
  BOOST_TEST((threads.take(one_more).error().code == errc::queue_full));
  *gone = true;
  auto room = ask(threads, brief, 8);
  BOOST_TEST_REQUIRE(threads.start().has_value());
  room.get();
  threads.stop();
  BOOST_TEST(!done);
}

BOOST_AUTO_TEST_CASE(a_task_that_throws_ends_no_thread) {
  background_threads threads;
  BOOST_TEST_REQUIRE(threads.start().has_value());
  for (std::uintptr_t c = 0; c < 4; ++c) {
    queued_task task;
    task.owner.connection = c;
    task.until = std::chrono::steady_clock::now() + 10min;
    task.work = [] { throw std::bad_alloc(); };
    BOOST_TEST(threads.take(std::move(task)).has_value());
  }
  BOOST_TEST((ask(threads, brief, 9).wait_for(60s) == std::future_status::ready));
  BOOST_TEST((ask(threads, lengthy, 9).wait_for(60s) == std::future_status::ready));
}

BOOST_AUTO_TEST_CASE(a_stop_waits_for_what_runs_and_forgets_the_rest) {
  auto threads = std::make_unique<background_threads>();
  BOOST_TEST_REQUIRE(threads->start().has_value());
  std::promise<void> begun;
  std::atomic<bool> ended = false;
  auto held = ask(*threads, lengthy, 1, [&] {
    begun.set_value();
    orcd::test::pause(20ms, "a stop that does not wait would be over before");
    ended = true;
  });
  begun.get_future().get();
  auto forgotten = ask(*threads, lengthy, 2);
  threads->stop();
  BOOST_TEST(ended.load());
  queued_task late;
  BOOST_TEST((threads->take(late).error().code == errc::draining));
  threads.reset();
  BOOST_CHECK_THROW(forgotten.get(), std::future_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
