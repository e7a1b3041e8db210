#include "engine/worker_state.hpp"

namespace orcd::engine {

std::string_view to_string(lifecycle state) noexcept {
  switch (state) {
    case lifecycle::starting: return "starting";
    case lifecycle::standby: return "standby";
    case lifecycle::waking: return "waking";
    case lifecycle::ready: return "ready";
    case lifecycle::busy: return "busy";
    case lifecycle::draining: return "draining";
    case lifecycle::failed: return "failed";
  }
  return "failed";
}

std::string_view to_string(health_status status) noexcept {
  switch (status) {
    case health_status::healthy: return "healthy";
    case health_status::degraded: return "degraded";
    case health_status::unhealthy: return "unhealthy";
  }
  return "unhealthy";
}

health_status status_of(health_cause cause) noexcept {
  switch (cause) {
    case health_cause::none: return health_status::healthy;
    case health_cause::holder_away:
    case health_cause::job_out_of_memory: return health_status::degraded;
    case health_cause::handler_out_of_memory:
    case health_cause::not_resident:
    case health_cause::lost: break;
  }
  return health_status::unhealthy;
}

std::string_view describe(health_cause cause) noexcept {
  switch (cause) {
    case health_cause::none: return {};
    case health_cause::holder_away:
      return "the holder of the connections is away; over when one is there again";
    case health_cause::job_out_of_memory:
      return "a job ran out of device memory; over when a later job has ended well";
    case health_cause::handler_out_of_memory: return "out of memory; the worker drains and ends";
    case health_cause::not_resident: return "the model is no longer in VRAM; over with a restart only";
    case health_cause::lost: return "the accelerator failed for good; the worker ends";
  }
  return {};
}

}  // namespace orcd::engine
