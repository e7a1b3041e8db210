#include "engine/worker_state.hpp"

namespace orcd::engine {

std::string_view to_string(lifecycle state) noexcept {
  switch (state) {
    case lifecycle::starting: return "starting";
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

}  // namespace orcd::engine
