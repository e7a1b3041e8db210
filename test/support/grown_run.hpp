// Long jobs that take pages of the KV cache as they grow, on any accelerator, to compare what they get on few
// pages with what they get on ample ones.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "test/support/drafted_run.hpp"

namespace orcd::test {

/// Described by its number alone: greedy or drawn, with penalties that look back over what may have to be
/// computed again, with log probabilities and scores. Most have three pages in the end; the context is 1,024.
[[nodiscard]] inline engine::job_request growing_job(std::uint32_t number, const scheduled_limits& limits) {
  engine::job_request job;
  job.job_id = "job" + std::to_string(number);
  const std::uint32_t length = 20 + number * 37 % 200;
  for (std::uint32_t i = 0; i < length; ++i)
    job.prompt.push_back(
        static_cast<engine::token_id>((number % 5 * 7919 + i * i * 31 + i / 9) % limits.vocab));
  job.max_tokens = 300 + number * 97 % 420;
  job.seed = 500 + number;
  job.ignore_eos = true;
  job.sampling.temperature = number % 3 == 0 ? 0.0F : 0.9F;
  if (number % 4 == 1) {
    job.sampling.repetition_penalty = 1.3F;
    job.sampling.frequency_penalty = 0.4F;
    job.sampling.repeat_last_n = 300;
  }
  if (number % 4 == 2) job.sampling.top_k = 20;
  if (number % 5 == 3) job.sampling.biases = {{3, 2.5F}, {9, -1.0F}};
  job.logprobs = number % 2 == 0;
  job.top_logprobs = job.logprobs ? 5 : 0;
  if (number % 16 == 6) job.score_from = length / 2;
  job.score_top = job.top_logprobs;
  job.score_ranks = number % 32 == 6;
  job.cache.enabled = number % 8 != 7;
  return job;
}

struct grown_run {
  std::vector<std::shared_ptr<recording_sink>> jobs;
  std::uint64_t preemptions = 0;
  engine::draft_counts drafts;
  engine::kv_cache_counts counts;
};

/// Runs jobs 0, 1, ... all at once. `disturb` is called before each step.
[[nodiscard]] inline grown_run run_growing(
    engine::accelerator& device, const scheduled_limits& limits, std::uint32_t jobs, bool share,
    engine::speculation drafts = {},
    const std::function<void(engine::scheduler&, std::uint32_t step)>& disturb = [](auto&, auto) {}) {
  engine::scheduler_config config;
  config.slots = limits.slots;
  config.end_of_generation = limits.end_of_generation;
  config.cache = {.share = share, .tokens_min = 1};
  config.drafts = std::move(drafts);
  engine::scheduler loop(device, config);
  grown_run out;
  for (std::uint32_t number = 0; number < jobs; ++number) {
    out.jobs.push_back(std::make_shared<recording_sink>());
    loop.submit(growing_job(number, limits), out.jobs.back());
  }
  std::uint32_t step = 0;
  do {
    disturb(loop, step++);
  } while (loop.run_step());
  out.preemptions = loop.counts().preemptions;
  out.drafts = loop.counts().drafts;
  out.counts = loop.counts().cache;
  return out;
}

/// Sources that know what `plain` gave, each token wrong with a probability.
[[nodiscard]] inline engine::speculation knowing(const grown_run& plain, const scheduled_limits& limits,
                                                 std::uint32_t always, double wrong) {
  std::map<std::string, std::vector<engine::token_id>> whole;
  for (std::uint32_t number = 0; number < plain.jobs.size(); ++number) {
    const engine::job_request job = growing_job(number, limits);
    auto& tokens = whole[job.job_id] = job.prompt;
    tokens.insert(tokens.end(), plain.jobs[number]->tokens().begin(), plain.jobs[number]->tokens().end());
  }
  return knowing(std::move(whole), limits.vocab, always, wrong);
}

[[nodiscard]] inline std::string difference(const grown_run& a, const grown_run& b) {
  if (a.jobs.size() != b.jobs.size()) return "another number of jobs";
  for (std::size_t i = 0; i < a.jobs.size(); ++i) {
    const std::string found = difference(*a.jobs[i], *b.jobs[i]);
    if (!found.empty()) return "job " + std::to_string(i) + ": " + found;
  }
  return "";
}

}  // namespace orcd::test
