// Who waits and whose turn it is: jobs in the order of arrival, suspects, preempted jobs, and the inputs of
// pooled ones.
#include <new>

#include "test/unit/schedule/parts/part_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;
using namespace std::chrono_literals;

namespace {

struct queue_bench : part_bench {
  explicit queue_bench(std::uint32_t slots = 2) {
    options.slots = slots;
    up();
  }
  void wait(const std::string& id, bool suspect = false) {
    auto one = request(id, prompt_of(4));
    one.suspect = suspect;
    parts->waiting.push(job(std::move(one)), time);
  }
  /// The job whose turn it is, or nothing.
  [[nodiscard]] std::string next() const {
    const auto index = parts->waiting.next(parts->running, time);
    return index ? parts->waiting[*index].request.job_id : "";
  }
  /// That job gets a slot.
  void start(std::uint32_t slot) {
    const auto index = parts->waiting.next(parts->running, time);
    BOOST_REQUIRE(index.has_value());
    parts->running.put(slot, parts->waiting.take(*index), time);
  }
  [[nodiscard]] std::string order() const {
    std::string out;
    for (std::size_t i = 0; i < parts->waiting.size(); ++i) out += parts->waiting[i].request.job_id;
    return out;
  }
};

job_outcome stopped(const sequence&) {
  return job_outcome::of(finish_reason::stop);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule_queues)

BOOST_AUTO_TEST_CASE(the_first_that_came_is_the_next) {
  queue_bench b;
  BOOST_TEST(b.next() == "");
  for (const char* id : {"a", "b", "c"}) b.wait(id);
  b.start(0);
  BOOST_TEST(b.next() == "b");
  BOOST_TEST(b.parts->running[0]->request.job_id == "a");
}

BOOST_AUTO_TEST_CASE(a_suspect_runs_with_nobody_else) {
  queue_bench b;
  b.wait("s", true);
  b.wait("a");
  BOOST_TEST(b.next() == "a");
  b.start(0);
  BOOST_TEST(b.next() == "");
  b.wait("b");
  BOOST_TEST(b.next() == "b");
  b.time += 11s;
  BOOST_TEST(b.next() == "");  // nobody overtakes it any more
  b.parts->ends.end(0, job_outcome::of(finish_reason::stop), b.time);
  BOOST_TEST(b.next() == "s");
  b.start(0);
  BOOST_TEST(b.next() == "");  // beside it there is nobody
}

BOOST_AUTO_TEST_CASE(a_preempted_job_waits_in_the_order_of_its_arrival) {
  queue_bench b(3);
  for (const char* id : {"a", "b", "c", "d"}) b.wait(id);
  for (std::uint32_t slot = 0; slot < 3; ++slot) b.start(slot);
  BOOST_TEST(b.parts->waiting.put_back(b.parts->running, 2).request.job_id == "c");
  BOOST_TEST(b.parts->waiting.put_back(b.parts->running, 0).request.job_id == "a");
  BOOST_TEST(b.order() == "acd");
  BOOST_TEST(b.parts->running.running() == 1U);
  BOOST_TEST(!b.parts->running[2]);
}

BOOST_AUTO_TEST_CASE(jobs_that_are_ended_leave_the_others_in_order) {
  queue_bench b;
  for (const char* id : {"a", "b", "c", "d", "e"}) b.wait(id);
  b.parts->waiting.end_if(
      [](const sequence& job) { return job.request.job_id == "b" || job.request.job_id == "c"; }, stopped,
      b.time);
  BOOST_TEST(b.order() == "ade");
  BOOST_TEST(!b.sinks[0]->ended());
  expect_end(*b.sinks[1], finish_reason::stop);
  expect_end(*b.sinks[2], finish_reason::stop);
}

BOOST_AUTO_TEST_CASE(no_job_is_lost_where_there_is_no_memory_to_say_how_it_ends) {
  queue_bench b;
  for (const char* id : {"a", "b", "c", "d"}) b.wait(id);
  const auto how = [](const sequence& job) {
    if (job.request.job_id == "c") throw std::bad_alloc();
    return stopped(job);
  };
  const auto which = [](const sequence& job) { return job.request.job_id != "b"; };
  BOOST_CHECK_THROW(b.parts->waiting.end_if(which, how, b.time), std::bad_alloc);
  BOOST_TEST(b.order() == "bcd");
  b.parts->waiting.end_if([](const sequence&) { return true; }, stopped, b.time);
  for (const auto& sink : b.sinks) expect_end(*sink, finish_reason::stop);
}

BOOST_AUTO_TEST_CASE(pooled_jobs_take_turns_and_fill_no_more_than_the_slots) {
  queue_bench b(3);
  const auto pooled = [&](const std::string& id, std::size_t inputs) {
    job_request one;
    one.job_id = id;
    for (std::size_t i = 0; i < inputs; ++i) one.inputs.push_back({prompt_of(3)});
    b.sinks.push_back(std::make_shared<recording_sink>());
    b.parts->pooled.push(std::make_shared<pooled_job>(std::move(one), b.sinks.back()));
  };
  pooled("x", 4);
  pooled("y", 1);
  b.wait("a");
  b.start(0);
  b.parts->pooled.feed(b.parts->waiting, b.parts->running, b.time);
  BOOST_TEST(b.order() == "xy");
  BOOST_TEST(b.parts->pooled.size() == 1U);
  // What was not made yet is never made; the answer comes when what was made has ended.
  b.parts->pooled.end_if([](const job_request& job) { return job.job_id == "x"; },
                         cancel_reason::client_cancel, b.time);
  BOOST_TEST(b.parts->pooled.empty());
  BOOST_TEST(!b.sinks[0]->ended());
  b.parts->waiting.end_if([](const sequence& job) { return job.request.job_id == "x"; },
                          [](const sequence&) { return job_outcome::of(cancel_reason::client_cancel, 0.0); },
                          b.time);
  expect_error(*b.sinks[0], errc::cancelled);
}

BOOST_AUTO_TEST_CASE(a_slot_knows_its_job_by_the_admission) {
  queue_bench b(2);
  b.wait("a");
  b.wait("b");
  b.start(1);
  const std::uint64_t first = b.parts->running[1]->admission;
  BOOST_TEST(b.parts->running.find(1, first) == b.parts->running[1].get());
  BOOST_TEST(b.parts->running.find(0, first) == nullptr);
  b.parts->ends.end(1, job_outcome::of(finish_reason::stop), b.time);
  b.start(1);
  BOOST_TEST(b.parts->running.find(1, first) == nullptr);
  BOOST_TEST(b.parts->running.admissions() == 2U);
  BOOST_TEST(b.parts->running.running() == 1U);
}

BOOST_AUTO_TEST_CASE(steps_know_the_only_job_they_work_for) {
  launched_steps steps;
  BOOST_TEST(steps.only_key() == 0U);
  steps.push({{.slot = 0, .key = 7, .tokens = 1}});
  steps.push({{.slot = 0, .key = 7, .tokens = 2}});
  BOOST_TEST(steps.only_key() == 7U);
  steps.push({{.slot = 1, .key = 9}});
  BOOST_TEST(steps.only_key() == 0U);
  BOOST_TEST(steps.take_oldest().front().tokens == 1U);
  BOOST_TEST(steps.size() == 2U);
}

BOOST_AUTO_TEST_SUITE_END()
