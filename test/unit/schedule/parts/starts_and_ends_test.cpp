// How jobs get slots and lose them, and what of that is told when; which job ends for a shortage of memory.
#include "test/unit/schedule/parts/part_bench.hpp"

using namespace orcd::engine;
using namespace orcd::test;

namespace {

/// Looks at slots and pages when a job ends.
struct looking_sink final : event_sink {
  explicit looking_sink(part_bench& b) : bench(b) {}
  void offer(const job_event& event) noexcept override {
    if (std::holds_alternative<started_event>(event)) return;
    bench.told.push_back(std::to_string(bench.parts->running.running()) + " run");
    bench.told.push_back(std::to_string(bench.accelerator->held_slots()) + " held");
  }
  part_bench& bench;
};

const error short_of_memory(errc::vram_oom, "short");

}  // namespace

BOOST_AUTO_TEST_SUITE(schedule_starts_and_ends)

BOOST_AUTO_TEST_CASE(no_job_overtakes_one_that_waits_for_pages) {
  part_bench b;
  b.options.slots = 3;
  b.options.pages = {4, 6};
  auto& p = b.up();
  p.waiting.push(b.job("a", 15, 1), b.time);
  p.waiting.push(b.job("large", 12, 1), b.time);
  p.waiting.push(b.job("small", 2, 1), b.time);
  b.admit();
  BOOST_TEST(p.running.running() == 1U);
  BOOST_TEST(p.waiting.size() == 2U);
  BOOST_TEST(p.pages.lacks());
  p.ends.end(0, job_outcome::of(finish_reason::stop), b.time);
  b.admit();
  BOOST_TEST(p.running.running() == 2U);
  BOOST_TEST(!p.pages.lacks());
  BOOST_TEST(p.running[0]->request.job_id == "large");
}

BOOST_AUTO_TEST_CASE(a_job_that_no_empty_cache_holds_is_refused_and_others_go_on) {
  part_bench b;
  b.options.slots = 1;
  b.options.pages = {4, 3};
  auto& p = b.up();
  p.waiting.push(b.job("large", 13, 1), b.time);
  p.waiting.push(b.job("a", 4, 1), b.time);
  b.admit();
  expect_error(*b.sinks[0], errc::vram_oom);
  BOOST_TEST(p.running[0]->request.job_id == "a");
}

BOOST_AUTO_TEST_CASE(a_job_that_needs_no_step_ends_with_its_start) {
  part_bench b;
  auto& p = b.up();
  auto done = b.request("done", prompt_of(4), 2);
  done.produced = {5, 6};
  p.waiting.push(b.job(std::move(done)), b.time);
  p.waiting.push(b.job("one", 1, 0), b.time);
  b.admit();
  expect_end(*b.sinks[0], finish_reason::length);
  b.admit();
  expect_end(*b.sinks[1], finish_reason::length);
  BOOST_TEST(p.running.running() == 0U);
}

BOOST_AUTO_TEST_CASE(slot_and_pages_are_free_before_the_end_is_told) {
  part_bench b;
  b.options.slots = 2;
  b.options.pages = {4, 8};
  auto& p = b.up();
  p.waiting.push(std::make_unique<sequence>(b.request("a", prompt_of(4)), std::make_shared<looking_sink>(b)),
                 b.time);
  b.admit();
  BOOST_TEST(b.accelerator->held_slots() == 1U);
  p.ends.end(0, job_outcome::of(finish_reason::stop), b.time);
  const std::vector<std::string> expected{"released", "0 run", "0 held"};
  BOOST_TEST(b.told == expected, boost::test_tools::per_element());
  BOOST_TEST(p.pages.cache()->counts().pages_free == 8U);
}

BOOST_AUTO_TEST_CASE(recovery_is_told_when_a_job_that_came_later_ends_well) {
  part_bench b;
  b.options.slots = 4;
  auto& p = b.up();
  const auto start = [&](std::uint32_t slot) { p.running.put(slot, b.job("j"), b.time); };
  start(0);
  p.faults.run_short(short_of_memory, p.running.admissions());
  start(1);
  start(2);
  start(3);
  b.told.clear();
  p.faults.note_end(*p.running[0], job_outcome::of(finish_reason::stop));  // was there before
  p.faults.note_end(*p.running[1], job_outcome::of(short_of_memory));
  BOOST_TEST(b.told.empty());
  p.faults.note_end(*p.running[2], job_outcome::of(finish_reason::length));
  p.faults.note_end(*p.running[3], job_outcome::of(finish_reason::length));
  BOOST_TEST(b.told == std::vector<std::string>{"recovered"}, boost::test_tools::per_element());
  BOOST_TEST(!p.faults.lost());
  p.faults.lose(short_of_memory);
  BOOST_TEST(p.faults.lost().has_value());
}

BOOST_AUTO_TEST_CASE(the_longest_part_ends_for_a_shortage_and_of_equals_the_latest) {
  part_bench b;
  b.options.slots = 4;
  auto& running = b.up().running;
  launched_steps steps;
  BOOST_TEST(failures::choose_victim(steps, running) == nullptr);
  for (const std::uint32_t slot : {2U, 0U, 1U}) running.put(slot, b.job("j"), b.time);
  BOOST_TEST(failures::choose_victim(steps, running) == running[1].get());
  const auto part = [&](std::uint32_t slot, std::uint32_t tokens) {
    return launched_part{.slot = slot, .admission = running[slot]->admission, .tokens = tokens};
  };
  steps.push({part(0, 1), part(1, 1)});
  BOOST_TEST(failures::choose_victim(steps, running) == running[1].get());
  steps.push({part(0, 1), part(2, 5)});
  BOOST_TEST(failures::choose_victim(steps, running) == running[2].get());
  // One that has ended cannot end again.
  b.parts->ends.end(2, job_outcome::of(finish_reason::stop), b.time);
  BOOST_TEST(failures::choose_victim(steps, running) == running[1].get());
}

BOOST_AUTO_TEST_SUITE_END()
