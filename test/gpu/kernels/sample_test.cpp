// The device's sampler against engine::sample and engine::logprobs_of, bit for bit: thousands of rows of
// random shapes, options and draws, several columns at once; and its time.
#include "kernels/sample/sample.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "engine/sampling/logprobs.hpp"
#include "engine/sampling/sampling.hpp"
#include "test/gpu/device_array.hpp"

namespace orcd::test {
namespace {

using engine::token_id;

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr std::uint32_t ticket = 77;
constexpr std::uint32_t history_stride = 5000;

enum class shape { normal, flat, narrow, ties, equal, masked, special, peaked, wild };
constexpr shape shapes[] = {shape::normal, shape::flat,    shape::narrow, shape::ties, shape::equal,
                            shape::masked, shape::special, shape::peaked, shape::wild};

struct random_source {
  std::mt19937_64 engine;
  std::uint64_t below(std::uint64_t n) { return engine() % n; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  double unit() { return static_cast<double>(engine() >> 11U) * 0x1.0p-53; }
  float uniform(double low, double high) { return static_cast<float>(low + (high - low) * unit()); }
  template <class T, std::size_t N>
  T pick(const T (&values)[N]) {
    return values[below(N)];
  }
};

float logit_of(random_source& random, shape s) {
  std::normal_distribution<float> normal(0.0F, 3.0F);
  switch (s) {
    case shape::normal: return normal(random.engine);
    case shape::flat: return random.uniform(-0.5, 0.5);
    case shape::narrow: return random.uniform(9.9999, 10.0001);
    case shape::ties: return std::round(normal(random.engine)) * 0.5F;
    case shape::equal: return -2.5F;
    case shape::masked: return random.one_in(3) ? -1e30F : normal(random.engine);
    case shape::special: {
      const float values[] = {inf, -inf, std::nanf(""), 0.0F, -0.0F, 3e38F, -3e38F, 1e-40F};
      return random.one_in(20) ? values[random.below(8)] : normal(random.engine);
    }
    case shape::peaked: return random.one_in(1000) ? random.uniform(10, 30) : normal(random.engine);
    case shape::wild: return normal(random.engine) * random.pick({1e-30F, 1.0F, 1e4F, 1e30F});
  }
  return 0.0F;
}

engine::sampling_params random_params(random_source& random) {
  engine::sampling_params p;
  p.temperature = random.one_in(4) ? 0.0F : random.pick({1.0F, 0.7F, 0.1F, 2.0F, 1.3F, 1e-6F, 1e-44F, 0.5F});
  p.top_k = random.one_in(2) ? 0U : random.pick({1U, 2U, 40U, 64U, 1000U, 1024U, 1025U, 5000U, 100'000U});
  p.top_p = random.one_in(2) ? 1.0F : random.pick({0.95F, 0.5F, 1e-6F, 0.999999F, 0.9F});
  p.min_p = random.one_in(2) ? 0.0F : random.pick({0.05F, 1.0F, 1e-9F, 0.3F});
  if (random.one_in(2)) {
    p.repetition_penalty = random.pick({1.0F, 1.1F, 2.0F, 0.5F, 1e-3F});
    p.presence_penalty = random.pick({0.0F, 0.5F, -2.0F, 2.0F});
    p.frequency_penalty = random.pick({0.0F, 0.3F, -2.0F, 2.0F});
    p.repeat_last_n = random.pick({0U, 1U, 64U, 1000U, 4096U});
  }
  return p;
}

kernels::sample_request request_of(const engine::sampling_params& p, double draw, std::uint32_t logprobs) {
  const auto steps = static_cast<std::uint64_t>(draw * 0x1.0p53);
  return {.temperature = p.temperature,
          .top_k = p.top_k,
          .top_p = p.top_p,
          .min_p = p.min_p,
          .repetition_penalty = p.repetition_penalty,
          .presence_penalty = p.presence_penalty,
          .frequency_penalty = p.frequency_penalty,
          .window = p.penalises() ? p.repeat_last_n : 0,
          .draw_high = static_cast<std::uint32_t>(steps >> 32U),
          .draw_low = static_cast<std::uint32_t>(steps),
          .logprobs = logprobs};
}

/// One launch of several columns and what each must give.
class sample_bench {
 public:
  sample_bench(std::uint32_t vocab, std::uint32_t columns, std::uint64_t seed)
      : random_{std::mt19937_64(seed)},
        vocab_(vocab),
        columns_(columns),
        logits_(std::size_t{vocab} * columns),
        history_(std::size_t{columns} * history_stride) {}

  void fill(shape s) {
    for (float& v : logits_) v = logit_of(random_, s);
    for (auto& token : history_) token = static_cast<std::int32_t>(random_.below(vocab_));
    // Few distinct tokens, so that some occur often.
    for (std::size_t i = 0; i < history_.size(); i += 2)
      history_[i] = static_cast<std::int32_t>(random_.below(1 + vocab_ / 50));
    banned_.clear();
    if (random_.one_in(2)) {
      for (std::uint64_t n = random_.below(1 + vocab_ / 3); n > 0; --n)
        banned_.push_back(static_cast<token_id>(random_.below(vocab_)));
    }
    asked_.clear();
    params_.clear();
    draws_.clear();
    for (std::uint32_t c = 0; c < columns_; ++c) {
      params_.push_back(random_params(random_));
      draws_.push_back(random_.one_in(10) ? random_.pick({0.0, 1.0 - 0x1.0p-53}) : random_.unit());
      const auto position = static_cast<std::int32_t>(random_.below(history_stride));
      const std::uint32_t logprobs =
          random_.one_in(3) ? static_cast<std::uint32_t>(1 + random_.below(21)) : 0;
      asked_.push_back(
          {request_of(params_[c], draws_[c], logprobs), static_cast<std::int32_t>(c), position, 1});
      asked_[c].request.result = columns_ - 1 - c;
      asked_[c].request.masked = random_.one_in(3) ? 1 + static_cast<std::uint32_t>(asked_[c].slot) : 0;
    }
    biases_.assign(std::size_t{columns_} * kernels::sample_biases_max, {0, 1e30F});
    for (std::uint32_t c = 0; c < columns_; ++c) {
      if (random_.one_in(2)) add_biases(c);
    }
    // From a few tokens to almost all.
    masks_.assign(std::size_t{columns_} * words(), 0);
    const std::uint64_t sparsity = random_.pick({1ULL, 2ULL, 20ULL, 2000ULL});
    for (auto& word : masks_) {
      for (std::uint32_t bit = 0; bit < 32; ++bit) word |= random_.one_in(sparsity) ? 1U << bit : 0U;
    }
  }

  void check(const char* what) {
    const auto results = run();
    engine::sampling_workspace workspace;
    for (std::uint32_t c = 0; c < columns_; ++c) {
      const auto& got = results[columns_ - 1 - c];
      const auto row = std::span(logits_).subspan(std::size_t{c} * vocab_, vocab_);
      const auto& p = params_[c];
      const auto window = std::min<std::size_t>(p.penalises() ? p.repeat_last_n : 0,
                                                static_cast<std::size_t>(asked_[c].position) + 1);
      const auto recent = std::span<const token_id>(history_).subspan(
          std::size_t{c} * history_stride + static_cast<std::size_t>(asked_[c].position) + 1 - window,
          window);
      const token_id expected = engine::sample(row, p, recent, banned_, draws_[c], workspace, mask_of(c));
      if (got.token != expected || got.ticket != ticket || got.active != 1) {
        BOOST_ERROR(what << ": token " << got.token << ", not " << expected << "; vocab " << vocab_
                         << " column " << c << " T " << p.temperature << " k " << p.top_k << " p " << p.top_p
                         << " min " << p.min_p << " window " << window << " rep " << p.repetition_penalty
                         << " banned " << banned_.size() << " biases " << p.biases.size() << " masked "
                         << asked_[c].request.masked << " draw " << draws_[c]);
      }
      if (asked_[c].request.logprobs != 0 && expected >= 0) check_logprobs(row, got, c);
      ++checked;
    }
  }

  /// Up to the most that a slot may have, ids ascending; one of them is outside the vocabulary.
  void add_biases(std::uint32_t column) {
    const auto most = random_.pick({1U, 7U, 300U, kernels::sample_biases_max});
    std::vector<token_id> ids(vocab_);
    std::iota(ids.begin(), ids.end(), 0);
    std::shuffle(ids.begin(), ids.end(), random_.engine);
    ids.resize(std::min(vocab_, most - 1));
    ids.push_back(static_cast<token_id>(vocab_));
    std::sort(ids.begin(), ids.end());
    auto& list = params_[column].biases;
    for (const token_id id : ids) {
      const float bias = random_.one_in(3) ? random_.pick({-100.0F, 100.0F, 0.0F}) : random_.uniform(-3, 3);
      biases_[std::size_t{column} * kernels::sample_biases_max + list.size()] = {id, bias};
      list.push_back({id, bias});
    }
    asked_[column].request.biases = static_cast<std::uint32_t>(list.size());
  }

  /// Column 0 is plainly greedy, 1 too but nothing can be chosen, 2 is not active; others look for
  /// themselves.
  void check_keys() {
    for (std::uint32_t c = 0; c < columns_; ++c) {
      params_[c] = {.temperature = c < 4 ? 0.0F : 0.7F};
      asked_[c].request = request_of(params_[c], draws_[c], c == 3 ? 5 : 0);
      // Greedy, but its key knows nothing of biases.
      if (c == 4) params_[c].temperature = asked_[c].request.temperature = 0.0F;
      if (c == 4) add_biases(c);
      asked_[c].request.result = columns_ - 1 - c;
    }
    asked_[2].active = 0;
    std::vector<unsigned long long> keys(columns_, 0xC000'0000'0000'0000ULL | (0xFFFF'FFFFU - 123));
    keys[1] = 0;
    const device_array<unsigned long long> device_keys{std::span<const unsigned long long>(keys)};
    const auto results = run(device_keys.data());
    BOOST_TEST(results[columns_ - 1].token == 123);
    BOOST_TEST(results[columns_ - 2].token == -1);
    BOOST_TEST(results[columns_ - 3].token == -1);
    BOOST_TEST(results[columns_ - 3].active == 0U);
    engine::sampling_workspace workspace;
    for (std::uint32_t c = 3; c < columns_; ++c) {
      const auto row = std::span(logits_).subspan(std::size_t{c} * vocab_, vocab_);
      BOOST_TEST(results[columns_ - 1 - c].token ==
                 engine::sample(row, params_[c], {}, banned_, draws_[c], workspace, mask_of(c)));
    }
    for (const auto& result : results) BOOST_TEST(result.ticket == ticket);
    for (const auto key : device_keys.read()) BOOST_TEST(key == 0U);
  }

  /// All columns are plainly greedy, with keys of a token each, or not active.
  void check_all_plain() {
    std::vector<unsigned long long> keys(columns_);
    for (std::uint32_t c = 0; c < columns_; ++c) {
      asked_[c].request = request_of({.temperature = 0.0F}, 0.5, 0);
      asked_[c].request.result = columns_ - 1 - c;
      asked_[c].active = c % 3 != 2;
      keys[c] = 0xC000'0000'0000'0000ULL | (0xFFFF'FFFFU - c);
    }
    const device_array<unsigned long long> device_keys{std::span<const unsigned long long>(keys)};
    const auto results = run(device_keys.data(), true);
    for (std::uint32_t c = 0; c < columns_; ++c) {
      const kernels::sample_result& got = results[columns_ - 1 - c];
      BOOST_TEST(got.token == (asked_[c].active != 0 ? static_cast<token_id>(c) : -1));
      BOOST_TEST(got.active == static_cast<std::uint32_t>(asked_[c].active));
      BOOST_TEST(got.ticket == ticket);
    }
    for (const auto key : device_keys.read()) BOOST_TEST(key == 0U);
  }

  /// Microseconds of one launch, in a stream that has more of them.
  double time(const engine::sampling_params& p, std::uint32_t logprobs) {
    for (auto& a : asked_) {
      const auto result = a.request.result;
      a.request = request_of(p, 0.6, logprobs);
      a.request.result = result;
      a.position = 4999;
    }
    const device_array<float> logits{std::span<const float>(logits_)};
    const device_array<kernels::sample_column> asked{std::span<const kernels::sample_column>(asked_)};
    const device_array<std::int32_t> history{std::span<const std::int32_t>(history_)};
    const device_array<std::uint32_t> number{std::span<const std::uint32_t>(&ticket, 1)};
    const device_array<kernels::sample_result> results(columns_);
    const auto args = args_of(logits, asked, history, number, results);
    constexpr int launches = 50;
    double best = 1e9;
    for (int round = 0; round < 4; ++round) {
      BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < launches; ++i)
        BOOST_REQUIRE_EQUAL(kernels::launch_sample(args, nullptr), cudaSuccess);
      BOOST_REQUIRE_EQUAL(cudaDeviceSynchronize(), cudaSuccess);
      const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
      best = std::min(best, took.count() / launches);
    }
    return best;
  }

  std::uint64_t checked = 0;

 private:
  [[nodiscard]] std::size_t words() const { return (vocab_ + 31) / 32; }
  [[nodiscard]] engine::token_mask mask_of(std::uint32_t column) const {
    if (asked_[column].request.masked == 0) return {};
    return engine::token_mask(masks_).subspan(column * words(), words());
  }

  kernels::sample_args args_of(const device_array<float>& logits,
                               const device_array<kernels::sample_column>& asked,
                               const device_array<std::int32_t>& history,
                               const device_array<std::uint32_t>& number,
                               const device_array<kernels::sample_result>& results) const {
    kernels::sample_args args;
    args.logits = logits.data();
    args.vocab = vocab_;
    args.columns = columns_;
    args.asked = asked.data();
    args.history = history.data();
    args.history_stride = history_stride;
    args.ticket = number.data();
    args.results = results.data();
    return args;
  }

  std::vector<kernels::sample_result> run(unsigned long long* keys = nullptr, bool all_plain = false) {
    const device_array<float> logits{std::span<const float>(logits_)};
    const device_array<kernels::sample_column> asked{std::span<const kernels::sample_column>(asked_)};
    const device_array<std::int32_t> history{std::span<const std::int32_t>(history_)};
    const device_array<std::uint32_t> number{std::span<const std::uint32_t>(&ticket, 1)};
    const device_array<kernels::sample_result> results(columns_);
    auto args = args_of(logits, asked, history, number, results);
    std::vector<std::uint32_t> bits((vocab_ + 31) / 32);
    for (const token_id id : banned_) bits[static_cast<std::size_t>(id) / 32] |= 1U << id % 32;
    const device_array<std::uint32_t> banned{std::span<const std::uint32_t>(bits)};
    if (!banned_.empty()) args.banned = banned.data();
    const device_array<std::uint32_t> masks{std::span<const std::uint32_t>(masks_)};
    args.allowed = masks.data();
    const device_array<kernels::sample_bias> biases{std::span<const kernels::sample_bias>(biases_)};
    args.biases = biases.data();
    args.keys = keys;
    args.all_plain = all_plain;
    BOOST_REQUIRE_EQUAL(kernels::launch_sample(args, nullptr), cudaSuccess);
    return results.read();
  }

  void check_logprobs(std::span<const float> row, const kernels::sample_result& got, std::uint32_t c) {
    const auto expected = engine::logprobs_of(row, got.token, asked_[c].request.logprobs - 1);
    BOOST_REQUIRE(got.total >= std::uint64_t{1} << 40U);
    BOOST_TEST(engine::logprob_of(got.gap, got.total) == expected.chosen, "column " << c << " of " << vocab_);
    BOOST_REQUIRE_EQUAL(got.listed, expected.listed);
    for (std::uint32_t i = 0; i < got.listed; ++i) {
      BOOST_REQUIRE_EQUAL(got.ids[i], expected.top[i].token);
      BOOST_REQUIRE_EQUAL(engine::logprob_of(got.gaps[i], got.total), expected.top[i].logprob);
    }
  }

  random_source random_;
  std::uint32_t vocab_, columns_;
  std::vector<float> logits_;
  std::vector<std::int32_t> history_;
  std::vector<token_id> banned_;
  std::vector<engine::sampling_params> params_;
  std::vector<double> draws_;
  std::vector<kernels::sample_column> asked_;
  std::vector<std::uint32_t> masks_;          ///< [columns][words]
  std::vector<kernels::sample_bias> biases_;  ///< [columns][sample_biases_max]
};

}  // namespace

BOOST_AUTO_TEST_SUITE(sampler)

BOOST_AUTO_TEST_CASE(chooses_what_the_host_chooses_for_small_vocabularies) {
  std::uint64_t checked = 0;
  for (const std::uint32_t vocab : {1U, 2U, 19U, 31U, 33U, 257U, 1024U, 8191U, 8193U}) {
    sample_bench bench(vocab, 16, vocab);
    for (int round = 0; round < 4; ++round) {
      for (const shape s : shapes) {
        bench.fill(s);
        bench.check("small");
      }
    }
    checked += bench.checked;
  }
  BOOST_TEST(checked == 9U * 4 * 9 * 16);
}

BOOST_AUTO_TEST_CASE(chooses_what_the_host_chooses_for_real_vocabularies) {
  for (const std::uint32_t vocab : {32'064U, 151'936U, 201'088U, kernels::sample_vocab_max}) {
    sample_bench bench(vocab, 8, vocab);
    for (const shape s : shapes) {
      bench.fill(s);
      bench.check("real");
    }
  }
}

// Keys of the kernel before, here made of the wrong token on purpose: it is theirs to be right.
BOOST_AUTO_TEST_CASE(plain_greedy_columns_take_the_key_that_is_given_and_all_keys_are_zeroed) {
  sample_bench bench(1000, 6, 1);
  bench.fill(shape::normal);
  bench.check_keys();
}

BOOST_AUTO_TEST_CASE(columns_of_which_all_are_plain_take_their_keys) {
  sample_bench bench(1000, 70, 1);
  bench.fill(shape::normal);
  bench.check_all_plain();
}

BOOST_AUTO_TEST_CASE(what_cannot_be_launched_is_refused) {
  kernels::sample_args args;
  BOOST_TEST(kernels::launch_sample(args, nullptr) == cudaErrorInvalidValue);
}

// What a step of the smallest models takes, and half of what the host's sampler does: whatever is asked for
// and however the logits lie, the choice of a token may not be what a stream waits for.
constexpr double most_us = 1'000;

BOOST_AUTO_TEST_CASE(no_choice_takes_as_long_as_a_step) {
  struct setting {
    const char* name;
    engine::sampling_params params;
    std::uint32_t logprobs;
  };
  const setting settings[] = {
      {"greedy", {.temperature = 0.0F}, 0},
      {"plain", {.temperature = 0.8F}, 0},
      {"top_k 40", {.temperature = 0.8F, .top_k = 40}, 0},
      {"top_p 0.95", {.temperature = 0.8F, .top_p = 0.95F}, 0},
      {"all",
       {.temperature = 0.8F, .top_k = 40, .top_p = 0.95F, .min_p = 0.05F, .repetition_penalty = 1.1F},
       0},
      {"greedy, 20 logprobs", {.temperature = 0.0F}, 21}};
  for (const std::uint32_t vocab : {32'064U, 151'936U, 201'088U}) {
    for (const std::uint32_t columns : {1U, 8U}) {
      for (const shape s : {shape::normal, shape::peaked, shape::flat}) {
        if (columns > 1 && s != shape::normal) continue;
        sample_bench bench(vocab, columns, 1);
        bench.fill(s);
        for (const auto& [name, params, logprobs] : settings) {
          const double us = bench.time(params, logprobs);
          const char* const drawn = s == shape::normal ? "normal" : s == shape::peaked ? "peaked" : "flat  ";
          std::printf("sample: vocab %6u columns %u %s %-20s %6.1f us\n", vocab, columns, drawn, name, us);
          BOOST_TEST(us < most_us, name << " of " << vocab << " tokens takes " << us << " us");
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace orcd::test
