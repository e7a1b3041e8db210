// What the client of a job is told, in which order, and when what it is told happened. Private to
// engine/schedule; the scheduler's thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "engine/accelerator.hpp"
#include "engine/schedule/job.hpp"
#include "engine/schedule/job_outcome.hpp"

namespace orcd::engine {

class job_telling {
 public:
  /// What times are measured from.
  struct beginnings {
    steady_time received_at{};
    std::optional<steady_time> first_token_at;  ///< of output that the job came with, if that is known
  };

  explicit job_telling(std::shared_ptr<event_sink> sink);

  /// The job has its first slot, and `cached` positions of its prompt are computed.
  void start(steady_time received_at, std::uint32_t cached, steady_time now);
  [[nodiscard]] bool started() const noexcept { return started_; }
  /// So many tokens of the prompt are computed. A step that was lost and repeated tells nothing new.
  void progress(std::uint32_t processed, steady_time now);
  /// The prompt's token at `index`, for which `scored` is the result.
  void scored(token_id token, std::uint32_t index, const sampled_token& scored);
  /// A token of output has come, the first that this process made or a later one.
  void note_output(bool first, steady_time now) noexcept;
  /// The token of the output at `index`, or the one that ends it.
  void output(const sampled_token& chosen, std::uint32_t index, bool logprobs,
              token_part part = token_part::output);
  /// The terminal event; nothing may be told after it. `pooled`: null where the job is not pooled.
  void finish(const job_outcome& how, const job_stats& stats, pooled_values* pooled);

  /// Fills in the times. `made`: this process has made output.
  void add_times(job_stats& stats, const beginnings& from, bool made, steady_time now) const noexcept;

 private:
  std::shared_ptr<event_sink> sink_;
  std::uint32_t progress_ = 0;  ///< that was told
  bool started_ = false;
  bool finished_ = false;
  steady_time slot_at_{}, first_token_at_{}, last_token_at_{};
};

}  // namespace orcd::engine
