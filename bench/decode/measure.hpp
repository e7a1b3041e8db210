// Rates of an accelerator, driven as the scheduler drives it: prompts in chunks, then one token of every
// sequence a step, greedy. Times are wall clock and include what a caller waits for.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/accelerator.hpp"

namespace orcd::bench {

struct measure_limits {
  std::uint32_t runs = 5;
  std::uint32_t tokens = 128;  ///< decoded a sequence and run
  double seconds = 4.0;        ///< no run begins after this, and decoding stops
  /// Called with true when the timed part of a run begins, with false when it ends: for a profiler.
  std::function<void(bool)> timed = [](bool) {};
};

struct rate {
  double tok_s = 0.0;    ///< median of the runs, all sequences together
  double spread = 0.0;   ///< (fastest - slowest) / median
  double step_ms = 0.0;  ///< of one decode step, or of the whole prompt
  std::uint32_t runs = 0;
  bool reproducible = true;  ///< every run sampled the same tokens
};

/// Positions a sequence needs for a prompt and its decoding.
[[nodiscard]] std::uint32_t positions_needed(std::uint32_t prompt, const measure_limits& limits);

/// `sequences` slots, each with its own prompt of `prompt` tokens, decoding together; every run begins anew
/// behind the prompts. Throws accelerator_failure, and runtime_error for an answer that no accelerator may
/// give.
[[nodiscard]] rate measure_decode(engine::accelerator& device, std::uint32_t vocab, std::uint32_t sequences,
                                  std::uint32_t prompt, const measure_limits& limits);

/// What each slot's sequence has: those of its slot, or nothing for slots that are not listed. Without slots
/// sequences use the accelerator without begin().
struct slot_adapters {
  std::uint32_t slots = 0;  ///< that the accelerator was loaded with
  std::vector<std::vector<engine::active_adapter>> of_slot;
};

/// The same with adapters.
[[nodiscard]] rate measure_decode(engine::accelerator& device, std::uint32_t vocab, std::uint32_t sequences,
                                  std::uint32_t prompt, const measure_limits& limits,
                                  const slot_adapters& adapters);

/// How long a caller waits for each of `steps` decode steps of `sequences` sequences, milliseconds.
/// `between` is called before each with its number, and its time counts.
[[nodiscard]] std::vector<double> measure_gaps(engine::accelerator& device, std::uint32_t vocab,
                                               std::uint32_t sequences, std::uint32_t prompt,
                                               std::uint32_t steps, const slot_adapters& adapters,
                                               const std::function<void(std::uint32_t)>& between);

/// One prompt of `tokens` tokens up to and including its first sampled token.
[[nodiscard]] rate measure_prefill(engine::accelerator& device, std::uint32_t vocab, std::uint32_t tokens,
                                   const measure_limits& limits, const slot_adapters& adapters = {});

}  // namespace orcd::bench
