// Jobs of every kind with drafts and without, on any accelerator, to compare all that they get. Sources of
// drafts that know the output are right, wrong or either by chance.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "test/support/recording_sink.hpp"
#include "test/support/scheduled_run.hpp"

namespace orcd::test {

inline constexpr std::uint32_t drafted_kinds = 11;

/// A job that is described by its number alone. Its prompt repeats itself, so that there is something to look
/// up; every second output crosses a page.
[[nodiscard]] inline engine::job_request drafted_job(std::uint32_t kind, const scheduled_limits& limits) {
  engine::job_request job;
  job.job_id = "job" + std::to_string(kind);
  const std::uint32_t length = kind % 2 == 0 ? 245 : 40;
  for (std::uint32_t i = 0; i < length; ++i)
    job.prompt.push_back(static_cast<engine::token_id>((kind * 7919 + i % 11 * 977 + i / 88) % limits.vocab));
  job.max_tokens = 24 + kind;
  job.seed = 100 + kind;
  job.ignore_eos = kind != 2;
  job.sampling.temperature = kind == 0 || kind == 5 ? 0.0F : 0.8F;
  if (kind == 1) job.sampling.top_k = 5;
  if (kind == 2) job.sampling.top_p = 0.9F;
  if (kind == 3) job.sampling.min_p = 0.01F;
  if (kind == 3 || kind == 4) {
    job.sampling.repetition_penalty = 1.3F;
    job.sampling.frequency_penalty = 0.4F;
    job.sampling.repeat_last_n = kind == 3 ? 5 : 45;  // the output alone, or the prompt too
  }
  job.logprobs = kind == 0 || kind >= 4;
  job.top_logprobs = job.logprobs ? 3 : 0;
  job.tell_end = kind == 2;
  if (kind == 6) job.sampling.biases = {{3, 2.5F}, {9, -1.0F}};
  if (kind == 7) job.score_from = 30;
  job.score_top = job.top_logprobs;
  job.score_ranks = kind == 7;
  if (kind == 10) use_rare_samplers(job.sampling, kind);  // it has no drafts
  if ((kind == 8 || kind == 9) && limits.constraint) job.constraint = limits.constraint(kind);
  return job;
}

/// Guesses what an earlier run has given, each token wrong with a probability.
class known_drafts final : public engine::draft_source {
 public:
  known_drafts(std::vector<engine::token_id> whole, double wrong, std::uint32_t vocab, std::uint64_t seed)
      : whole_(std::move(whole)), wrong_(wrong), vocab_(vocab), random_(seed) {}

  std::uint32_t guess(std::span<const engine::token_id> tokens, std::uint32_t most,
                      std::vector<engine::token_id>& guess) override {
    guess.clear();
    for (std::size_t at = tokens.size(); guess.size() < most; ++at) {
      const auto other = static_cast<engine::token_id>(random_() % vocab_);
      const bool spoilt = at >= whole_.size() || std::uniform_real_distribution<>(0, 1)(random_) < wrong_;
      guess.push_back(!spoilt ? whole_[at]
                      : at < whole_.size() && other == whole_[at]
                          ? (other + 1) % static_cast<engine::token_id>(vocab_)
                          : other);
    }
    return static_cast<std::uint32_t>(random_() % engine::draft_kinds);
  }

 private:
  std::vector<engine::token_id> whole_;
  double wrong_;
  std::uint32_t vocab_;
  std::mt19937_64 random_;
};

struct drafted_run {
  std::vector<std::shared_ptr<recording_sink>> jobs;  ///< by kind
  engine::draft_counts drafts;
};

/// Runs a job of each kind, all at once; `stop` ends that of kind 5. `disturb` is called before each step.
[[nodiscard]] inline drafted_run run_drafted(
    engine::accelerator& device, const scheduled_limits& limits, engine::speculation drafts,
    engine::token_id stop = -1,
    const std::function<void(engine::scheduler&, std::uint32_t step)>& disturb = [](auto&, auto) {}) {
  engine::scheduler_config config;
  config.slots = limits.slots;
  config.end_of_generation = limits.end_of_generation;
  config.cache = {.tokens_min = 1};
  config.drafts = std::move(drafts);
  engine::scheduler loop(device, config);
  drafted_run out;
  for (std::uint32_t kind = 0; kind < drafted_kinds; ++kind) {
    out.jobs.push_back(std::make_shared<recording_sink>());
    engine::job_request job = drafted_job(kind, limits);
    if (kind == 5 && stop >= 0) job.stop_tokens = {stop};
    job.keep_stop_token = true;
    loop.submit(std::move(job), out.jobs.back());
  }
  std::uint32_t step = 0;
  do {
    disturb(loop, step++);
  } while (loop.run_step());
  out.drafts = loop.counts().drafts;
  return out;
}

/// What disturbs a run: interrupted steps, and jobs that come, and are cancelled when two more have come.
class coming_and_going {
 public:
  explicit coming_and_going(const scheduled_limits& limits) : limits_(limits) {}

  void operator()(engine::scheduler& loop, std::uint32_t step) {
    if (step % 7 == 3) loop.interrupt();
    if (step % 5 != 1 || come_ == 30) return;
    auto job = drafted_job(1, limits_);
    job.job_id = "neighbour" + std::to_string(come_++);
    job.seed = step;
    loop.submit(job, std::make_shared<recording_sink>());
    if (come_ > 2) loop.cancel("neighbour" + std::to_string(come_ - 2), engine::cancel_reason::client_cancel);
  }

 private:
  const scheduled_limits& limits_;
  std::uint32_t come_ = 0;
};

/// Sources that know whole texts, by the ids of jobs.
[[nodiscard]] inline engine::speculation knowing(std::map<std::string, std::vector<engine::token_id>> whole,
                                                 std::uint32_t vocab, std::uint32_t always, double wrong) {
  return {true, always, [whole = std::move(whole), wrong, vocab](engine::job_request& job, std::uint32_t) {
            const auto found = whole.find(job.job_id);
            return std::make_unique<known_drafts>(
                found == whole.end() ? std::vector<engine::token_id>() : found->second, wrong, vocab,
                job.seed);
          }};
}

/// Sources that know what `plain` gave.
[[nodiscard]] inline engine::speculation knowing(const drafted_run& plain, const scheduled_limits& limits,
                                                 std::uint32_t always, double wrong) {
  std::map<std::string, std::vector<engine::token_id>> whole;
  for (std::uint32_t kind = 0; kind < drafted_kinds; ++kind) {
    const engine::job_request job = drafted_job(kind, limits);
    auto& tokens = whole[job.job_id] = job.prompt;
    tokens.insert(tokens.end(), plain.jobs[kind]->tokens().begin(), plain.jobs[kind]->tokens().end());
  }
  return knowing(std::move(whole), limits.vocab, always, wrong);
}

[[nodiscard]] inline bool same_logprobs(const std::vector<engine::token_logprobs>& a,
                                        const std::vector<engine::token_logprobs>& b) {
  if (a.size() != b.size()) return false;
  const auto same = [](float x, float y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same(a[i].chosen, b[i].chosen) || a[i].listed != b[i].listed || a[i].rank != b[i].rank) return false;
    for (std::uint32_t n = 0; n < a[i].listed; ++n) {
      if (a[i].top[n].token != b[i].top[n].token || !same(a[i].top[n].logprob, b[i].top[n].logprob))
        return false;
    }
  }
  return true;
}

/// What differs between two jobs; empty if nothing does.
[[nodiscard]] inline std::string difference(const recording_sink& one, const recording_sink& other) {
  if (!one.fault().empty() || !other.fault().empty()) return one.fault() + other.fault();
  if (!one.end() || !other.end()) return "did not end well";
  if (one.tokens() != other.tokens()) return "other tokens";
  if (one.end()->reason != other.end()->reason || one.ending() != other.ending()) return "other end";
  if (!same_logprobs(one.logprobs(), other.logprobs())) return "other log probabilities";
  if (!same_logprobs(one.prompt_logprobs(), other.prompt_logprobs())) return "other scores";
  return "";
}

/// What differs between two runs; empty if nothing does.
[[nodiscard]] inline std::string difference(const drafted_run& a, const drafted_run& b) {
  for (std::uint32_t kind = 0; kind < drafted_kinds; ++kind) {
    const std::string found = difference(*a.jobs[kind], *b.jobs[kind]);
    if (!found.empty()) return "job " + std::to_string(kind) + ": " + found;
  }
  return "";
}

/// Hands everything on, at a cost of its own for a step of several tokens.
class with_cost : public depth_limit {
 public:
  with_cost(engine::accelerator& device, std::uint32_t depth, double each)
      : depth_limit(device, depth), each_(each) {}
  [[nodiscard]] double step_cost(std::uint32_t tokens) const noexcept override {
    return 1.0 + each_ * (tokens - 1);
  }

 private:
  double each_;
};

}  // namespace orcd::test
