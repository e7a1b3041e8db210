#include "engine/base/error.hpp"

namespace orcd::engine {

std::string_view code_name(errc code) noexcept {
  switch (code) {
    case errc::invalid_request: return "INVALID_REQUEST";
    case errc::unauthorized: return "UNAUTHORIZED";
    case errc::forbidden: return "FORBIDDEN";
    case errc::context_length_exceeded: return "CONTEXT_LENGTH_EXCEEDED";
    case errc::payload_too_large: return "PAYLOAD_TOO_LARGE";
    case errc::duplicate_job: return "DUPLICATE_JOB";
    case errc::conflict: return "CONFLICT";
    case errc::queue_full: return "QUEUE_FULL";
    case errc::draining: return "DRAINING";
    case errc::not_ready: return "NOT_READY";
    case errc::not_found: return "NOT_FOUND";
    case errc::method_not_allowed: return "METHOD_NOT_ALLOWED";
    case errc::model_load_failed: return "MODEL_LOAD_FAILED";
    case errc::insufficient_vram: return "INSUFFICIENT_VRAM";
    case errc::vram_oom: return "VRAM_OOM";
    case errc::cuda_error: return "CUDA_ERROR";
    case errc::inference_timeout: return "INFERENCE_TIMEOUT";
    case errc::cancelled: return "CANCELLED";
    case errc::worker_start_failed: return "WORKER_START_FAILED";
    case errc::engine_lost: return "ENGINE_LOST";
    case errc::engine_changed: return "ENGINE_CHANGED";
    case errc::stale_weights: return "STALE_WEIGHTS";
    case errc::weights_lost: return "WEIGHTS_LOST";
    case errc::internal: return "INTERNAL";
  }
  return "INTERNAL";
}

bool is_retriable(errc code) noexcept {
  switch (code) {
    case errc::queue_full:
    case errc::draining:
    case errc::not_ready:
    case errc::vram_oom:
    case errc::cuda_error:
    case errc::inference_timeout:
    case errc::engine_changed:
    case errc::internal: return true;
    default: return false;
  }
}

}  // namespace orcd::engine
