// Mixed jobs through the scheduler on a loaded accelerator, to compare what they get: other depths of
// launching ahead, other slots, other backends.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "test/support/rare_samplers.hpp"
#include "test/support/recording_sink.hpp"

namespace orcd::test {

/// Hands everything on, but launches no further ahead than it is told to.
class depth_limit : public engine::accelerator {
 public:
  depth_limit(engine::accelerator& device, std::uint32_t depth) : device_(device), depth_(depth) {}

  [[nodiscard]] engine::result<engine::memory_plan> load(
      const engine::model& m, const engine::accelerator_config& config,
      const std::function<void(unsigned percent)>& progress) override {
    return device_.load(m, config, progress);
  }
  void unmap_weights() override { device_.unmap_weights(); }
  [[nodiscard]] engine::result<void> map_weights(const engine::shared_weights& from) override {
    return device_.map_weights(from);
  }
  [[nodiscard]] std::uint32_t chunk_tokens() const noexcept override { return device_.chunk_tokens(); }
  [[nodiscard]] std::uint32_t launch_depth() const noexcept override { return depth_; }
  [[nodiscard]] engine::kv_geometry kv_pages() const noexcept override { return device_.kv_pages(); }
  [[nodiscard]] std::uint32_t draft_tokens() const noexcept override { return device_.draft_tokens(); }
  [[nodiscard]] double step_cost(std::uint32_t tokens) const noexcept override {
    return device_.step_cost(tokens);
  }
  [[nodiscard]] engine::result<void> put_adapter(std::uint32_t index,
                                                 const engine::lora_adapter& adapter) override {
    return device_.put_adapter(index, adapter);
  }
  [[nodiscard]] engine::result<void> begin_adapter(std::uint32_t index,
                                                   const engine::lora_adapter& adapter) override {
    return device_.begin_adapter(index, adapter);
  }
  [[nodiscard]] bool continue_adapter() override { return device_.continue_adapter(); }
  void drop_adapter(std::uint32_t index) noexcept override { device_.drop_adapter(index); }
  void begin(const engine::sequence_start& start) override { device_.begin(start); }
  void extend(engine::slot_id slot, std::uint32_t group, std::uint32_t have,
              std::span<const engine::kv_page> pages) override {
    device_.extend(slot, group, have, pages);
  }
  void clear(std::uint32_t group, std::span<const engine::kv_page> pages) noexcept override {
    device_.clear(group, pages);
  }
  void wait_idle() noexcept override { device_.wait_idle(); }
  void launch(std::span<const engine::sequence_step> sequences,
              const engine::interrupt_flag& interrupt) override {
    device_.launch(sequences, interrupt);
  }
  [[nodiscard]] bool collect(const engine::interrupt_flag& interrupt,
                             std::vector<engine::sampled_token>& sampled) override {
    return device_.collect(interrupt, sampled);
  }
  [[nodiscard]] bool keep_state(engine::slot_id slot, const engine::state_copy& what) noexcept override {
    return device_.keep_state(slot, what);
  }
  void release(engine::slot_id slot) noexcept override { device_.release(slot); }
  [[nodiscard]] std::span<const float> logits(engine::slot_id slot) const noexcept override {
    return device_.logits(slot);
  }
  [[nodiscard]] const char* name() const noexcept override { return device_.name(); }
  [[nodiscard]] bool resident() const noexcept override { return device_.resident(); }
  [[nodiscard]] std::uint64_t vram_bytes() const noexcept override { return device_.vram_bytes(); }
  [[nodiscard]] std::vector<std::string> audit() override { return device_.audit(); }

 private:
  engine::accelerator& device_;
  std::uint32_t depth_;
};

struct scheduled_limits {
  std::uint32_t slots = 1;
  std::uint32_t vocab = 0;
  std::uint32_t context = 0;
  std::vector<engine::token_id> end_of_generation;
  /// For jobs that have one.
  std::function<std::shared_ptr<engine::token_constraint>(std::uint32_t number)> constraint = {};
};

/// Greedy, drawn, filtered and penalised jobs of many lengths; what depends on the number alone.
[[nodiscard]] inline engine::job_request mixed_job(std::uint32_t number, const scheduled_limits& limits) {
  engine::job_request job;
  job.job_id = "job" + std::to_string(number);
  for (std::uint32_t i = 0; i <= number * 5 % 23; ++i) {
    job.prompt.push_back(static_cast<engine::token_id>((number * 31 + i * 7) % limits.vocab));
  }
  job.max_tokens = 1 + number * 11 % (limits.context - 24);
  job.seed = number;
  job.ignore_eos = number % 4 == 0;
  job.sampling.temperature = number % 3 == 0 ? 0.0F : 0.8F;
  if (number % 5 == 1) job.sampling.top_k = 5;
  if (number % 5 == 2) job.sampling.top_p = 0.9F;
  if (number % 5 == 3) job.sampling.min_p = 0.05F;
  if (number % 2 == 1) {
    job.sampling.repetition_penalty = 1.3F;
    job.sampling.frequency_penalty = 0.4F;
    job.sampling.repeat_last_n = 1 + number * 3 % 40;
  }
  if (number % 8 == 0) use_rare_samplers(job.sampling, number / 8);
  if (number % 7 >= 5) {
    for (std::uint32_t id = number; id < limits.vocab; id += 13) {
      job.sampling.biases.push_back({static_cast<engine::token_id>(id), id % 2 == 0 ? 2.5F : -1.0F});
    }
  }
  return job;
}

/// What a run has besides mixed_job().
struct run_extras {
  std::function<void(engine::scheduler&)> begin = [](auto&) {};
  std::function<void(std::uint32_t number, engine::job_request&)> change = [](auto, auto&) {};
  std::function<void(engine::scheduler&, std::uint32_t step)> before_step = [](auto&, auto) {};
};

/// The tokens of each job. Throws when one does not end normally.
[[nodiscard]] inline std::vector<std::vector<engine::token_id>> run_jobs(engine::accelerator& device,
                                                                         const scheduled_limits& limits,
                                                                         std::uint32_t jobs,
                                                                         const run_extras& extras = {}) {
  engine::scheduler_config config;
  config.slots = limits.slots;
  config.end_of_generation = limits.end_of_generation;
  engine::scheduler loop(device, config);
  extras.begin(loop);
  std::vector<std::shared_ptr<recording_sink>> sinks;
  for (std::uint32_t i = 0; i < jobs; ++i) {
    sinks.push_back(std::make_shared<recording_sink>());
    engine::job_request job = mixed_job(i, limits);
    extras.change(i, job);
    loop.submit(std::move(job), sinks.back());
  }
  std::uint32_t step = 0;
  do {
    extras.before_step(loop, step++);
  } while (loop.run_step());
  std::vector<std::vector<engine::token_id>> out;
  for (const auto& sink : sinks) {
    if (!sink->fault().empty() || !sink->end()) throw std::runtime_error("a job did not end normally");
    out.push_back(sink->tokens());
  }
  return out;
}

}  // namespace orcd::test
