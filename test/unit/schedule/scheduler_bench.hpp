// A scheduler over a fake accelerator with a clock that moves only when told, and short words for
// what the stories check.
#pragma once

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <vector>

#include "engine/lora/adapter.hpp"
#include "engine/schedule/scheduler.hpp"
#include "test/support/fake_accelerator.hpp"
#include "test/support/put_adapter.hpp"
#include "test/support/recording_sink.hpp"

namespace orcd::test {

using sink_ptr = std::shared_ptr<recording_sink>;

/// Set `options` and `ends`, then call up().
struct scheduler_bench {
  fake_options options;
  std::vector<engine::token_id> ends;
  engine::kv_cache_config cache;
  engine::steady_time time{std::chrono::hours(1)};
  std::vector<engine::error> failures, degraded;
  std::size_t recovered = 0;
  std::unique_ptr<fake_accelerator> device;
  std::unique_ptr<engine::scheduler> loop;

  engine::scheduler& up() {
    device = std::make_unique<fake_accelerator>(options);
    device->record(true);
    engine::scheduler_config config;
    config.slots = options.slots;
    config.end_of_generation = ends;
    config.cache = cache;
    config.now = [this] { return time; };
    config.on_failure = [this](const engine::error& e) { failures.push_back(e); };
    config.on_degraded = [this](const engine::error& e) { degraded.push_back(e); };
    config.on_recovered = [this] { ++recovered; };
    loop = std::make_unique<engine::scheduler>(*device, config);
    return *loop;
  }

  [[nodiscard]] engine::job_request request(std::string id, std::vector<engine::token_id> prompt,
                                            std::uint32_t max_tokens) const {
    engine::job_request r;
    r.job_id = std::move(id);
    r.prompt = std::move(prompt);
    r.max_tokens = max_tokens;
    r.received_at = time;
    return r;
  }

  sink_ptr submit(engine::job_request r) {
    auto sink = std::make_shared<recording_sink>();
    loop->submit(std::move(r), sink);
    return sink;
  }
  sink_ptr submit(std::string id, std::vector<engine::token_id> prompt, std::uint32_t max_tokens) {
    return submit(request(std::move(id), std::move(prompt), max_tokens));
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) (void)loop->run_step();
  }
  /// Runs until nothing is left to do.
  void finish() {
    int count = 0;
    while (loop->run_step()) BOOST_REQUIRE(++count < 10'000);
    BOOST_TEST(loop->idle());
    BOOST_TEST(device->held_slots() == 0U);
  }
};

/// Different lengths and starts give different prompts.
[[nodiscard]] inline std::vector<engine::token_id> prompt_of(std::uint32_t length,
                                                             engine::token_id first = 1) {
  std::vector<engine::token_id> out;
  for (std::uint32_t i = 0; i < length; ++i) out.push_back((first + static_cast<int>(i) * 7) % 128);
  return out;
}

/// All that the fake accelerator looks at.
[[nodiscard]] inline engine::lora_adapter adapter_named(std::string digest) {
  engine::lora_adapter adapter;
  adapter.digest = std::move(digest);
  return adapter;
}

inline void expect_tokens(const recording_sink& sink, const std::vector<engine::token_id>& tokens) {
  BOOST_TEST(sink.tokens() == tokens, boost::test_tools::per_element());
}

inline void expect_end(const recording_sink& sink, engine::finish_reason reason) {
  BOOST_TEST(sink.fault() == "");
  BOOST_REQUIRE(sink.end().has_value());
  BOOST_TEST((sink.end()->reason == reason));
}

inline void expect_error(const recording_sink& sink, engine::errc code) {
  BOOST_TEST(sink.fault() == "");
  BOOST_REQUIRE(sink.error().has_value());
  BOOST_TEST(code_name(sink.error()->failure.code) == code_name(code));
  BOOST_TEST(!sink.error()->failure.message.empty());
}

}  // namespace orcd::test
