#include "bench/decode/measure.hpp"

#include <algorithm>
#include <chrono>
#include <span>
#include <stdexcept>
#include <string>

namespace orcd::bench {
namespace {

using engine::sampled_token;
using engine::sequence_step;
using engine::slot_id;
using engine::token_id;
using steady = std::chrono::steady_clock;

/// Untimed steps before the timed ones: they bring the clocks up and fill the caches.
constexpr std::uint32_t settling_steps = 4;

double seconds_since(steady::time_point begin) {
  return std::chrono::duration<double>(steady::now() - begin).count();
}

std::vector<token_id> make_prompt(std::uint32_t slot, std::uint32_t tokens, std::uint32_t vocab) {
  std::vector<token_id> out(tokens);
  std::uint64_t state = slot + 1;
  for (token_id& token : out) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    token = static_cast<token_id>((state >> 33U) % vocab);
  }
  return out;
}

/// What one run gave: seconds for `tokens` tokens, and everything that was sampled.
struct run_result {
  double seconds = 0.0;
  std::uint32_t steps = 0;
  std::vector<token_id> sampled;
};

class driver {
 public:
  driver(engine::accelerator& device, std::uint32_t vocab, const slot_adapters& adapters = {})
      : device_(device), vocab_(vocab), adapters_(adapters) {}

  /// Gives the slot its share of the pages, and its adapters; nothing without adapters.
  void begin(std::uint32_t slot) {
    if (adapters_.slots == 0) return;
    const std::uint32_t each = device_.kv_pages().pages / adapters_.slots;
    std::vector<engine::kv_page> pages(each);
    for (std::uint32_t i = 0; i < each; ++i) pages[i] = static_cast<engine::kv_page>(slot * each + i);
    engine::sequence_start start{slot_id{slot}, pages};
    if (slot < adapters_.of_slot.size()) start.adapters = adapters_.of_slot[slot];
    device_.begin(start);
  }

  /// The token sampled after the whole prompt.
  token_id prefill(std::uint32_t slot, std::span<const token_id> prompt) {
    begin(slot);
    token_id last = -1;
    for (std::size_t at = 0; at < prompt.size(); at += device_.chunk_tokens()) {
      const std::size_t count = std::min<std::size_t>(device_.chunk_tokens(), prompt.size() - at);
      const bool end = at + count == prompt.size();
      const sequence_step part{slot_id{slot}, static_cast<std::uint32_t>(at), prompt.subspan(at, count),
                               end ? &request_ : nullptr};
      run_step({&part, 1}, end ? 1 : 0);
      if (end) last = sampled_.front().token;
    }
    return last;
  }

  /// What the next step of `sequences` samples, which appends `first`, a token of each, or without it what
  /// each sampled last, at `position`, then position + 1 and so on. As the worker does, up to launch_depth()
  /// steps are launched before the first of them is collected, but no more than `left`.
  const std::vector<sampled_token>& decode(std::uint32_t sequences, std::uint32_t position,
                                           std::uint32_t left, std::span<const token_id> first) {
    for (; launched_ < std::min(left, device_.launch_depth()); ++launched_) {
      steps_.clear();
      for (std::uint32_t slot = 0; slot < sequences; ++slot) {
        const auto token = first.empty() ? first : first.subspan(slot, 1);
        steps_.push_back({slot_id{slot}, position + launched_, token, &request_});
      }
      first = {};
      device_.launch(steps_, interrupt_);
    }
    collect(sequences);
    --launched_;
    return sampled_;
  }

  [[nodiscard]] std::uint32_t launched() const noexcept { return launched_; }

  void release(std::uint32_t slots) noexcept {
    for (std::uint32_t slot = 0; slot < slots; ++slot) device_.release(slot_id{slot});
  }

 private:
  void run_step(std::span<const sequence_step> parts, std::size_t expected) {
    device_.launch(parts, interrupt_);
    collect(expected);
  }

  void collect(std::size_t expected) {
    sampled_.clear();
    if (!device_.collect(interrupt_, sampled_)) throw std::runtime_error("a step stopped by itself");
    if (sampled_.size() != expected) {
      throw std::runtime_error("a step sampled " + std::to_string(sampled_.size()) + " tokens, not " +
                               std::to_string(expected));
    }
    for (const sampled_token& s : sampled_) {
      if (s.token < 0 || static_cast<std::uint32_t>(s.token) >= vocab_)
        throw std::runtime_error("sampled token " + std::to_string(s.token) + " is not in the vocabulary");
    }
  }

  engine::accelerator& device_;
  std::uint32_t vocab_;
  slot_adapters adapters_;
  const engine::interrupt_flag interrupt_{false};
  const engine::sampling_params greedy_{.temperature = 0.0F};
  const engine::sample_request request_{
      .params = &greedy_, .draw = 0.0, .remaining = 1U << 30U, .stop_at_end = false};
  std::uint32_t launched_ = 0;  ///< steps under way
  std::vector<sequence_step> steps_;
  std::vector<sampled_token> sampled_;
};

/// Repeats `run` within the limits. Each run counts `tokens_per_step` tokens a step.
template <class F>
rate repeat(const measure_limits& limits, double tokens_per_step, F run) {
  const auto begin = steady::now();
  rate out;
  std::vector<double> rates;
  std::vector<token_id> first;
  for (std::uint32_t i = 0; i < limits.runs && (i == 0 || seconds_since(begin) < limits.seconds); ++i) {
    const run_result r = run(begin);
    if (r.steps == 0 || r.seconds <= 0.0) break;
    rates.push_back(r.steps * tokens_per_step / r.seconds);
    if (i == 0) first = r.sampled;
    // A run that the clock cut short sampled fewer tokens; those it has must be the same.
    const std::size_t both = std::min(first.size(), r.sampled.size());
    out.reproducible &=
        std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(both), r.sampled.begin());
  }
  if (rates.empty()) throw std::runtime_error("nothing was measured");
  std::sort(rates.begin(), rates.end());
  out.tok_s = rates[rates.size() / 2];
  out.spread = (rates.back() - rates.front()) / out.tok_s;
  out.step_ms = 1e3 * tokens_per_step / out.tok_s;
  out.runs = static_cast<std::uint32_t>(rates.size());
  return out;
}

}  // namespace

std::uint32_t positions_needed(std::uint32_t prompt, const measure_limits& limits) {
  return prompt + settling_steps + limits.tokens;
}

rate measure_decode(engine::accelerator& device, std::uint32_t vocab, std::uint32_t sequences,
                    std::uint32_t prompt, const measure_limits& limits) {
  return measure_decode(device, vocab, sequences, prompt, limits, {});
}

rate measure_decode(engine::accelerator& device, std::uint32_t vocab, std::uint32_t sequences,
                    std::uint32_t prompt, const measure_limits& limits, const slot_adapters& adapters) {
  driver drive(device, vocab, adapters);
  std::vector<token_id> first;
  for (std::uint32_t slot = 0; slot < sequences; ++slot)
    first.push_back(drive.prefill(slot, make_prompt(slot, prompt, vocab)));
  const rate out = repeat(limits, sequences, [&](steady::time_point begin) {
    run_result out;
    out.sampled.reserve(std::size_t{sequences} * (settling_steps + limits.tokens));
    auto decode_begin = steady::now();
    std::uint32_t done = 0;
    for (std::uint32_t left = settling_steps + limits.tokens; left > 0; --left, ++done) {
      if (done == settling_steps) {
        limits.timed(true);
        decode_begin = steady::now();
      }
      const auto given = done == 0 ? std::span<const token_id>(first) : std::span<const token_id>();
      for (const sampled_token& s : drive.decode(sequences, prompt + done, left, given))
        out.sampled.push_back(s.token);
      if (done >= settling_steps) ++out.steps;
      // Out of time: only what is launched already.
      if (out.steps > 0 && seconds_since(begin) > 2 * limits.seconds) left = drive.launched() + 1;
    }
    out.seconds = seconds_since(decode_begin);
    limits.timed(false);
    return out;
  });
  drive.release(sequences);
  return out;
}

std::vector<double> measure_gaps(engine::accelerator& device, std::uint32_t vocab, std::uint32_t sequences,
                                 std::uint32_t prompt, std::uint32_t steps, const slot_adapters& adapters,
                                 const std::function<void(std::uint32_t)>& between) {
  driver drive(device, vocab, adapters);
  std::vector<token_id> first;
  for (std::uint32_t slot = 0; slot < sequences; ++slot)
    first.push_back(drive.prefill(slot, make_prompt(slot, prompt, vocab)));
  std::vector<double> gaps;
  for (std::uint32_t done = 0; done < settling_steps + steps; ++done) {
    const auto begin = steady::now();
    if (done >= settling_steps) between(done - settling_steps);
    const auto given = done == 0 ? std::span<const token_id>(first) : std::span<const token_id>();
    static_cast<void>(drive.decode(sequences, prompt + done, settling_steps + steps - done, given));
    if (done >= settling_steps) gaps.push_back(1e3 * seconds_since(begin));
  }
  drive.release(sequences);
  return gaps;
}

rate measure_prefill(engine::accelerator& device, std::uint32_t vocab, std::uint32_t tokens,
                     const measure_limits& limits, const slot_adapters& adapters) {
  driver drive(device, vocab, adapters);
  const std::vector<token_id> prompt = make_prompt(0, tokens, vocab);
  return repeat(limits, tokens, [&](steady::time_point) {
    run_result out;
    limits.timed(true);
    const auto begin = steady::now();
    out.sampled = {drive.prefill(0, prompt)};
    out.seconds = seconds_since(begin);
    limits.timed(false);
    out.steps = 1;
    drive.release(1);
    return out;
  });
}

}  // namespace orcd::bench
