// What a request's jobs hold while they run, and when it is given back: no socket, no thread.
#include "net/jobs/admission_hold.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "engine/base/ensure.hpp"
#include "engine/base/narration.hpp"
#include "test/support/failing_memory.hpp"
#include "test/unit/net/completion/letter_tokenizer.hpp"

namespace orcd::net {
namespace {

using engine::cancel_reason;
using engine::errc;

class recorded_jobs final : public engine::job_service {
 public:
  void submit(engine::job_request request, std::shared_ptr<engine::event_sink>) override {
    submitted.push_back(std::move(request));
  }
  void cancel(const std::string& job_id, cancel_reason reason) override {
    if (cancels_without_memory > 0) {
      --cancels_without_memory;
      throw std::bad_alloc();
    }
    BOOST_TEST((reason == cancel_reason::disconnected));
    cancelled.push_back(job_id);
  }
  std::vector<engine::job_request> submitted;
  std::vector<std::string> cancelled;
  int cancels_without_memory = 0;
};

class silent_narrator final : public engine::narrator {
 public:
  void narrate(engine::severity, std::string_view, std::string_view,
               std::initializer_list<engine::narration_field>) noexcept override {}
};

class silent_stream final : public open_stream {
 public:
  void cancel(cancel_reason) override {}
};

std::vector<engine::job_request> jobs_of(std::initializer_list<const char*> ids) {
  std::vector<engine::job_request> out(ids.size());
  std::size_t i = 0;
  for (const char* id : ids) out[i++].job_id = id;
  return out;
}

const key_owner nobody{};
const key_owner alice{"a1", "alice", "alice"};
const key_owner bob{"b2", "bob", "bob"};

/// A worker with three slots and one place in the queue.
struct fixture {
  fixture() { identity.slots = 3; }
  /// Takes places for these jobs; null when they are refused, and `refusal` says why.
  std::shared_ptr<admission_hold> enter(const std::string& id, const std::vector<engine::job_request>& jobs,
                                        const key_owner& owner = nobody) {
    auto hold = std::make_shared<admission_hold>(s, id, jobs, owner, [this] { ++over; });
    const auto entered = hold->enter();
    if (entered) return hold;
    refusal = entered.error();
    return nullptr;
  }
  [[nodiscard]] std::size_t in_admission() const { return admission.running() + admission.waiting(); }

  recorded_jobs jobs;
  engine::admission admission{{.slots = 3, .max_queue = 1}};
  engine::worker_state state;
  engine::worker_identity identity;
  test::letter_tokenizer tokenizer;
  silent_narrator narrator;
  service s{server_config(), server_context{jobs, admission, state, identity, tokenizer, narrator, {}}};
  silent_stream stream;
  std::optional<engine::error> refusal;
  int over = 0;
};

BOOST_FIXTURE_TEST_SUITE(admission_holds, fixture)

BOOST_AUTO_TEST_CASE(one_job_holds_a_place_and_its_name_until_it_has_ended) {
  const auto hold = enter("j", jobs_of({"j"}));
  BOOST_TEST_REQUIRE(hold != nullptr);
  hold->show(stream);
  hold->submit(std::move(jobs_of({"j"})[0]), nullptr);
  BOOST_TEST(admission.contains("j"));
  BOOST_TEST((s.streams.at("j") == &stream));
  hold->job_ended(0);
  BOOST_TEST(in_admission() == 0U);
  BOOST_TEST(s.streams.empty());
  BOOST_TEST(over == 1);
  hold->finish();
  BOOST_TEST(over == 1);
}

/// Jobs that another engine had begun wait for their turn before their streams are shown.
BOOST_AUTO_TEST_CASE(a_job_that_has_only_entered_is_not_stalled) {
  const auto hold = enter("j", jobs_of({"j"}));
  BOOST_TEST_REQUIRE(hold != nullptr);
  BOOST_TEST(s.facts().running == 1U);
  const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
  BOOST_TEST((s.facts().step_age < since_boot / 2));
  hold->submit(std::move(jobs_of({"j"})[0]), nullptr);
  hold->job_ended(0);
}

BOOST_AUTO_TEST_CASE(several_jobs_enter_together_or_not_at_all) {
  const auto first = enter("r", jobs_of({"r-0", "r-1", "r-2"}));
  BOOST_TEST_REQUIRE(first != nullptr);
  BOOST_TEST(in_admission() == 3U);
  BOOST_TEST(enter("q", jobs_of({"q-0", "q-1"})) == nullptr);
  BOOST_TEST((refusal->code == errc::queue_full));
  BOOST_TEST(in_admission() == 3U, "the one that found a place has given it back");
  // The name of a request that was refused is free again.
  BOOST_TEST(enter("q", jobs_of({"q"})) != nullptr);
}

BOOST_AUTO_TEST_CASE(the_name_of_several_jobs_is_held_beside_theirs) {
  const auto hold = enter("r", jobs_of({"r-0", "r-1"}));
  BOOST_TEST_REQUIRE(hold != nullptr);
  BOOST_TEST(enter("r", jobs_of({"r"})) == nullptr);
  BOOST_TEST((refusal->code == errc::duplicate_job));
  hold->job_ended(0);
  BOOST_TEST(in_admission() == 2U, "places are given back together");
  BOOST_TEST(over == 0);
  hold->job_ended(1);
  BOOST_TEST(in_admission() == 0U);
  BOOST_TEST(over == 1);
  BOOST_TEST(enter("r", jobs_of({"r"})) != nullptr);
}

BOOST_AUTO_TEST_CASE(more_jobs_than_slots_take_the_places_of_those_before_them) {
  const auto ids = {"r-0", "r-1", "r-2", "r-3", "r-4"};
  auto asked = jobs_of(ids);
  const auto hold = enter("r", asked);
  BOOST_TEST_REQUIRE(hold != nullptr);
  BOOST_TEST(in_admission() == 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    BOOST_TEST_REQUIRE(hold->can_submit());
    hold->submit(std::move(asked[i]), nullptr);
  }
  BOOST_TEST(!hold->can_submit());
  BOOST_TEST(enter("r-4", jobs_of({"r-4"})) == nullptr, "the name of a job that waits is taken");
  BOOST_TEST((refusal->code == errc::duplicate_job));
  hold->job_ended(1);
  admission.drain();
  BOOST_TEST_REQUIRE(hold->can_submit(), "a request that was accepted is finished while the worker drains");
  hold->submit(std::move(asked[3]), nullptr);
  BOOST_TEST(!hold->can_submit());
  BOOST_TEST((admission.contains("r-3") && !admission.contains("r-1")));
  BOOST_TEST(in_admission() == 3U);
  hold->job_ended(3);
  hold->submit(std::move(asked[4]), nullptr);
  BOOST_TEST(jobs.submitted.back().job_id == "r-4");
  for (const std::size_t job : {0U, 2U}) hold->job_ended(job);
  BOOST_TEST(over == 0);
  hold->job_ended(4);
  BOOST_TEST(over == 1);
  BOOST_TEST(in_admission() == 0U);
}

BOOST_AUTO_TEST_CASE(jobs_that_never_began_are_counted_and_their_names_are_free_again) {
  auto asked = jobs_of({"r-0", "r-1", "r-2", "r-3", "r-4"});
  const auto hold = enter("r", asked);
  for (std::size_t i = 0; i < 3; ++i) hold->submit(std::move(asked[i]), nullptr);
  hold->skip();
  hold->skip();
  for (const std::size_t job : {0U, 1U, 2U}) hold->job_ended(job);
  BOOST_TEST(over == 1);
  BOOST_TEST(in_admission() == 0U);
  BOOST_TEST(enter("r-4", jobs_of({"r-4"})) != nullptr);
}

BOOST_AUTO_TEST_CASE(ids_are_scoped_by_key_and_a_refusal_names_what_the_client_sent) {
  const auto first = enter("j", jobs_of({"j"}), alice);
  const auto other = enter("j", jobs_of({"j"}), bob);
  BOOST_TEST_REQUIRE(first != nullptr);
  BOOST_TEST(other != nullptr);
  BOOST_TEST(first->ids().at(0) == "a1:j");
  BOOST_TEST(enter("j", jobs_of({"j"}), alice) == nullptr);
  BOOST_TEST((refusal->code == errc::duplicate_job));
  BOOST_TEST(refusal->message == engine::duplicate_job("j").message);
}

BOOST_AUTO_TEST_CASE(a_job_is_submitted_under_its_scoped_id_and_salt) {
  const auto hold = enter("r", jobs_of({"r-0", "r-1"}), alice);
  BOOST_TEST_REQUIRE(hold != nullptr);
  for (auto& job : jobs_of({"r-0", "r-1"})) {
    job.cache.salt = "s";
    hold->submit(std::move(job), nullptr);
  }
  BOOST_TEST(jobs.submitted.at(0).job_id == "a1:r-0");
  BOOST_TEST(jobs.submitted.at(1).job_id == "a1:r-1");
  BOOST_TEST(jobs.submitted.at(0).cache.salt == scoped_salt(alice, "s"));
}

BOOST_AUTO_TEST_CASE(the_worker_is_idle_when_the_answer_is_written_too) {
  bool idle = false;
  admission.on_idle([&] { idle = true; });
  const auto hold = enter("j", jobs_of({"j"}));
  admission.drain();
  hold->job_ended(0);
  BOOST_TEST(!idle);
  hold->finish();
  BOOST_TEST(idle);
}

BOOST_AUTO_TEST_CASE(jobs_that_end_after_the_answer_leave_nobody_waiting_for_a_reader) {
  const auto hold = enter("j", jobs_of({"j"}));
  hold->finish();
  hold->job_ended(0);
  BOOST_TEST(over == 0);
}

BOOST_AUTO_TEST_CASE(an_exception_cancels_what_was_submitted_and_gives_the_places_back) {
  const auto submit_two_and_fail = [this] {
    const auto hold = enter("r", jobs_of({"r-0", "r-1", "r-2"}));
    hold->show(stream);
    for (auto& job : jobs_of({"r-0", "r-1"})) hold->submit(std::move(job), nullptr);
    throw std::bad_alloc();
  };
  // The cancels find no memory at first.
  jobs.cancels_without_memory = 3;
  BOOST_CHECK_THROW(submit_two_and_fail(), std::bad_alloc);
  BOOST_TEST((jobs.cancelled == std::vector<std::string>{"r-1", "r-0"}));
  BOOST_TEST(in_admission() == 0U);
  BOOST_TEST(s.streams.empty());
}

BOOST_AUTO_TEST_CASE(a_job_that_cannot_be_cancelled_keeps_its_place) {
  jobs.cancels_without_memory = 1'000;
  const auto fail = [this] {
    const auto hold = enter("j", jobs_of({"j"}));
    hold->show(stream);
    hold->submit(std::move(jobs_of({"j"})[0]), nullptr);
    throw std::bad_alloc();
  };
  BOOST_CHECK_THROW(fail(), std::bad_alloc);
  BOOST_TEST(in_admission() == 1U);
  BOOST_TEST(s.streams.empty(), "but nobody is shown a stream that is gone");
}

BOOST_AUTO_TEST_CASE(without_an_exception_only_the_stream_is_hidden) {
  enter("j", jobs_of({"j"}))->show(stream);
  BOOST_TEST(s.streams.empty());
  BOOST_TEST(in_admission() == 1U);
  BOOST_TEST(jobs.cancelled.empty());
}

BOOST_AUTO_TEST_CASE(what_fails_for_want_of_memory_keeps_no_place_and_no_name) {
  if (!orcd::test::allocations_can_fail) {
    BOOST_TEST_MESSAGE("skipped: this allocator cannot be told to fail");
    return;
  }
  const auto asked = jobs_of({"the-first-of-some-jobs-with-long-names", "the-second-of-them", "3", "4", "5"});
  std::optional<admission_hold> hold;
  const auto failures = orcd::test::fail_from_each_allocation_on(
      [&] {
        hold.emplace(s, "a-request-whose-name-is-not-short", asked, alice, [] {});
        ORCD_ENSURE(hold->enter());
      },
      [&] {
        // As the end of the answer's coroutine would.
        if (hold) hold->finish();
        hold.reset();
        BOOST_TEST(in_admission() == 0U);
        const auto again = enter("a-request-whose-name-is-not-short", asked, alice);
        BOOST_TEST_REQUIRE(again != nullptr);
        again->finish();
      });
  BOOST_TEST(failures > 10U);
  BOOST_TEST(in_admission() == 3U);
  hold->finish();
  BOOST_TEST(in_admission() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace orcd::net
