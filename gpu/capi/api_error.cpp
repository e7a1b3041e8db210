#include "gpu/capi/api_error.hpp"

#include <algorithm>
#include <array>

namespace orcd::gpu {
namespace {

using engine::errc;

struct last_error {
  int code = WORKER_CUDA_SUCCESS;
  std::array<char, 1024> text{};
};
thread_local last_error last;

const char* general_text(int code) noexcept {
  switch (code) {
    case WORKER_CUDA_SUCCESS: return "no error";
    case WORKER_CUDA_ERROR_DEVICE_NOT_FOUND: return "no GPU was found";
    case WORKER_CUDA_ERROR_OUT_OF_MEMORY: return "memory ran out";
    case WORKER_CUDA_ERROR_INVALID_DEVICE: return "there is no usable GPU with this index";
    case WORKER_CUDA_ERROR_MODEL_LOAD_FAILED: return "the model could not be loaded";
    case WORKER_CUDA_ERROR_INFERENCE_FAILED: return "the inference failed";
    case WORKER_CUDA_ERROR_VRAM_RESIDENCY_FAILED: return "the model is not in VRAM";
    case WORKER_CUDA_ERROR_KERNEL_LAUNCH_FAILED: return "a CUDA call failed";
    case WORKER_CUDA_ERROR_INVALID_ARGUMENT: return "an argument is NULL or out of range";
    case WORKER_CUDA_ERROR_UNKNOWN: return "an unknown error";
    default: return "not an error code of this library";
  }
}

}  // namespace

worker_cuda_error api_code(const engine::error& failure, worker_cuda_error otherwise) noexcept {
  switch (failure.code) {
    case errc::invalid_request:
    case errc::context_length_exceeded: return WORKER_CUDA_ERROR_INVALID_ARGUMENT;
    case errc::insufficient_vram:
    case errc::vram_oom: return WORKER_CUDA_ERROR_OUT_OF_MEMORY;
    case errc::cuda_error: return WORKER_CUDA_ERROR_KERNEL_LAUNCH_FAILED;
    case errc::worker_start_failed:
      // Errors in the choice among existing GPUs name the option.
      return failure.param.empty() ? WORKER_CUDA_ERROR_DEVICE_NOT_FOUND : WORKER_CUDA_ERROR_INVALID_DEVICE;
    default: return otherwise;
  }
}

void remember_error(worker_cuda_error code, std::string_view text) noexcept {
  const auto kept = text.substr(0, last.text.size() - 1);
  last.code = code;
  *std::copy(kept.begin(), kept.end(), last.text.begin()) = '\0';
}

const char* error_text(int code) noexcept {
  const bool known = code != WORKER_CUDA_SUCCESS && code == last.code && last.text[0] != '\0';
  return known ? last.text.data() : general_text(code);
}

}  // namespace orcd::gpu
