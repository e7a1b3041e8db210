// The scheduler's parts without the scheduler: over a fake accelerator, with jobs that are put where a test
// wants them.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/schedule/parts/draft_offers.hpp"
#include "engine/schedule/parts/job_starts.hpp"
#include "engine/schedule/parts/step_plan.hpp"
#include "engine/schedule/parts/step_results.hpp"
#include "test/unit/schedule/scheduler_bench.hpp"

namespace orcd::test {

/// What orcd::engine::scheduler is made of, as it is made.
struct scheduler_parts {
  scheduler_parts(fake_accelerator& device_, engine::scheduler_config given)
      : config(std::move(given)),
        running(config.slots),
        device(device_),
        pages(device_, device, config.cache),
        growth(device_, pages, config.slots),
        faults(config),
        ends({running, device, pages, growth, faults}, config),
        starts({waiting, pooled, running, device, pages, growth, ends}),
        drafts(device_, config, pages, ends),
        plan(device_, {running, device, pages, drafts, ends}),
        results(config.end_of_generation, running, pages, ends) {
    pages.make_cache();
  }

  engine::scheduler_config config;
  engine::waiting_queue waiting;
  engine::pooled_queue pooled;
  engine::slot_table running;
  engine::device_sequences device;
  engine::page_plan pages;
  engine::page_growth growth;
  engine::failures faults;
  engine::job_ends ends;
  engine::job_starts starts;
  engine::draft_offers drafts;
  engine::step_plan plan;
  engine::step_results results;
};

/// Set `options` and `config`, then call up().
struct part_bench {
  fake_options options;
  engine::scheduler_config config;
  engine::steady_time time{std::chrono::hours(1)};
  std::vector<std::string> told;  ///< by config's hooks, in order
  std::unique_ptr<fake_accelerator> accelerator;
  std::unique_ptr<scheduler_parts> parts;
  std::vector<sink_ptr> sinks;  ///< of all jobs, in the order in which they were made

  scheduler_parts& up() {
    accelerator = std::make_unique<fake_accelerator>(options);
    config.slots = options.slots;
    config.now = [this] { return time; };
    config.on_released = [this] { told.push_back("released"); };
    config.on_degraded = [this](const engine::error&) { told.push_back("degraded"); };
    config.on_recovered = [this] { told.push_back("recovered"); };
    config.on_lost = [this](const engine::error&) { told.push_back("lost"); };
    parts = std::make_unique<scheduler_parts>(*accelerator, config);
    return *parts;
  }

  [[nodiscard]] engine::job_request request(std::string id, std::vector<engine::token_id> prompt,
                                            std::uint32_t max_tokens = 8) const {
    engine::job_request r;
    r.job_id = std::move(id);
    r.prompt = std::move(prompt);
    r.max_tokens = max_tokens;
    r.received_at = time;
    return r;
  }
  [[nodiscard]] std::unique_ptr<engine::sequence> job(engine::job_request r) {
    sinks.push_back(std::make_shared<recording_sink>());
    return std::make_unique<engine::sequence>(std::move(r), sinks.back());
  }
  [[nodiscard]] std::unique_ptr<engine::sequence> job(std::string id, std::uint32_t prompt = 8,
                                                      std::uint32_t max_tokens = 8) {
    return job(request(std::move(id), prompt_of(prompt, static_cast<engine::token_id>(sinks.size() * 3 + 1)),
                       max_tokens));
  }
  /// Waiting jobs get slots.
  void admit(std::uint64_t steps = 0) { parts->starts.admit(time, steps); }
  /// Plans a step and has it computed; its results are not accepted.
  [[nodiscard]] std::pair<engine::launched_step, std::vector<engine::sampled_token>> compute() {
    BOOST_TEST_REQUIRE(parts->plan.plan());
    std::pair<engine::launched_step, std::vector<engine::sampled_token>> out;
    out.first = parts->plan.take_record();
    BOOST_REQUIRE(accelerator->step(parts->plan.step(), never_, out.second));
    return out;
  }
  /// A whole step.
  void step() {
    auto [record, results] = compute();
    parts->results.accept(record, results, time);
    parts->plan.reuse(std::move(record));
  }

 private:
  engine::interrupt_flag never_{false};
};

/// Tokens of each slot's part, "slot:tokens", joined by spaces.
[[nodiscard]] inline std::string shape_of(const engine::launched_step& step) {
  std::string out;
  for (const auto& part : step) {
    out += (out.empty() ? "" : " ") + std::to_string(part.slot) + ":" + std::to_string(part.tokens);
  }
  return out;
}

}  // namespace orcd::test
