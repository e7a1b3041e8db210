// What a scheduler is given when it is made: its slots, whom it tells what, and how it uses pages and drafts.
// The hooks are called on the scheduler's thread and must not call it back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/schedule/draft_source.hpp"
#include "engine/schedule/job.hpp"
#include "engine/schedule/kv_cache.hpp"

namespace orcd::engine {

/// Whether sequences have drafts (engine/schedule/draft_source.hpp).
struct speculation {
  bool enabled = false;
  /// Drafts that a sequence with a guess has, whatever they cost; 0: as many as pay. At most drafts_max.
  std::uint32_t always = 0;
  /// Makes a sequence's source of drafts; empty: lookup_drafts.
  std::function<std::unique_ptr<draft_source>(job_request& job, std::uint32_t prompt_tokens)> source = {};
};

struct scheduler_config {
  std::uint32_t slots = 1;
  std::vector<token_id> end_of_generation;
  std::function<steady_time()> now;  ///< std::chrono::steady_clock::now when empty, or a test's clock
  /// Called when the accelerator has failed for good, after every job got its error event. Later jobs get the
  /// same error at once.
  std::function<void(const error&)> on_failure;
  /// Called when a step ran out of device memory, before the one job that is failed for it gets its event;
  /// the others go on.
  std::function<void(const error&)> on_degraded = {};
  /// Called after on_degraded when a job that was admitted since then ends well, before it gets its event.
  std::function<void()> on_recovered = {};
  /// Called first when the accelerator fails for good, before any event: /health must not look good to a
  /// client that has just seen the failure.
  std::function<void(const error&)> on_lost = {};
  /// Called when a running job's slot and pages are free again, before the job gets its terminal event: a
  /// client that has seen the event must not find them in use.
  std::function<void()> on_released = {};
  /// Called when a running job was preempted: it has lost its slot and pages to older ones and waits again.
  /// With its id and the tokens of its output so far.
  std::function<void(const std::string& job_id, std::uint32_t tokens)> on_preempted = {};
  kv_cache_config cache = {};  ///< where the accelerator has pages
  speculation drafts = {};     ///< where the accelerator takes drafts
};

}  // namespace orcd::engine
