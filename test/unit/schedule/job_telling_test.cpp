// What a client is told of its job, and the times of that.
#include "engine/schedule/job_telling.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "test/support/recording_sink.hpp"

using namespace orcd::engine;
using namespace std::chrono_literals;

namespace {

struct telling_bench {
  [[nodiscard]] job_stats stats(bool made, std::optional<steady_time> first = std::nullopt) const {
    job_stats out;
    telling.add_times(out, {received, first}, made, time);
    return out;
  }
  steady_time received{std::chrono::hours(1)};
  steady_time time = received;
  std::shared_ptr<orcd::test::recording_sink> sink = std::make_shared<orcd::test::recording_sink>();
  job_telling telling{sink};
};

}  // namespace

BOOST_AUTO_TEST_SUITE(job_tellings)

BOOST_AUTO_TEST_CASE(times_are_those_of_what_was_told) {
  telling_bench b;
  b.time += 5ms;
  BOOST_TEST(b.stats(false).queue_ms == 5.0);
  BOOST_TEST(!b.telling.started());
  b.telling.start(b.received, 3, b.time);
  BOOST_TEST(b.sink->cached() == 3U);
  b.time += 10ms;
  BOOST_TEST(b.stats(false).prefill_ms == 10.0);
  BOOST_TEST(b.stats(false).first_token_ms == 0.0);
  b.telling.note_output(true, b.time);
  b.time += 7ms;
  b.telling.note_output(false, b.time);
  b.time += 100ms;
  const job_stats stats = b.stats(true);
  BOOST_TEST(stats.queue_ms == 5.0);
  BOOST_TEST(stats.prefill_ms == 10.0);
  BOOST_TEST(stats.first_token_ms == 15.0);
  BOOST_TEST(stats.decode_ms == 7.0);
}

BOOST_AUTO_TEST_CASE(output_that_began_elsewhere_has_its_first_token_there) {
  telling_bench b;
  b.telling.start(b.received, 0, b.time);
  const steady_time first = b.received - 20ms;
  b.time += 5ms;
  BOOST_TEST(b.stats(false, first).first_token_ms == -20.0);
  BOOST_TEST(b.stats(false, first).decode_ms == 0.0);
  b.telling.note_output(true, b.time);
  BOOST_TEST(b.stats(true, first).decode_ms == 25.0);
}

BOOST_AUTO_TEST_CASE(progress_is_told_when_there_is_more) {
  telling_bench b;
  b.telling.start(b.received, 4, b.time);
  b.time += 2ms;
  for (const std::uint32_t processed : {4U, 8U, 6U, 8U, 9U}) b.telling.progress(processed, b.time);
  BOOST_TEST_REQUIRE(b.sink->progress().size() == 2U);
  BOOST_TEST(b.sink->progress()[0].processed == 8U);
  BOOST_TEST(b.sink->progress()[0].elapsed_ms == 2U);
  BOOST_TEST(b.sink->progress()[1].processed == 9U);
}

BOOST_AUTO_TEST_CASE(tokens_come_with_what_is_known_of_them) {
  telling_bench b;
  b.telling.start(b.received, 0, b.time);
  b.telling.scored(7, 1, {slot_id{}, 7, {.chosen = -2.0F}});
  b.telling.scored(8, 2, {slot_id{}, -1});
  b.telling.output({slot_id{}, 9, {.chosen = -1.0F}}, 0, true);
  b.telling.output({slot_id{}, 10}, 1, false);
  b.telling.output({slot_id{}, 5}, 2, false, token_part::end);
  BOOST_TEST(b.sink->prompt().size() == 2U);
  BOOST_TEST(b.sink->prompt_logprobs()[0].chosen == -2.0F);
  BOOST_TEST(std::isinf(b.sink->prompt_logprobs()[1].chosen));
  BOOST_TEST(b.sink->tokens().size() == 2U);
  BOOST_TEST(b.sink->logprobs().size() == 1U);
  BOOST_TEST((b.sink->ending() == std::optional<token_id>(5)));
  job_stats stats;
  stats.tokens_out = 2;
  auto pooled = std::make_shared<std::vector<float>>(1);
  pooled_values values = pooled;
  b.telling.finish(job_outcome::of(finish_reason::stop), stats, &values);
  BOOST_TEST(b.sink->fault() == "");
  BOOST_REQUIRE(b.sink->end().has_value());
  BOOST_TEST(b.sink->end()->pooled.size() == 1U);
  BOOST_TEST(b.sink->stats().tokens_out == 2U);
}

BOOST_AUTO_TEST_CASE(each_cancel_has_its_own_end) {
  BOOST_TEST(std::holds_alternative<finish_reason>(job_outcome::of(cancel_reason::stop_string, 1.0).value));
  const auto code = [](cancel_reason reason) {
    return std::get<error>(job_outcome::of(reason, 1234.4).value).code;
  };
  BOOST_TEST((code(cancel_reason::client_cancel) == errc::cancelled));
  BOOST_TEST((code(cancel_reason::shutdown) == errc::draining));
  BOOST_TEST((code(cancel_reason::timeout) == errc::inference_timeout));
  const auto late = std::get<error>(job_outcome::of(cancel_reason::timeout, 1234.4).value);
  BOOST_TEST(late.message.find("1234 ms") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
