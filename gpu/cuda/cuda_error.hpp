// CUDA failures as exceptions that the scheduler catches in one place. A sticky error ends the process
// with its own exit code; see app/process/exit_code.hpp. GPU thread only. Source: M0-W-1431, M0-W-1501.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "engine/accelerator.hpp"

namespace orcd::gpu {

/// A failed CUDA call; `code` is vram_oom for an allocation, cuda_error for everything else.
class cuda_failure : public engine::accelerator_failure {
 public:
  cuda_failure(cudaError_t failure, const char* call, const char* file, int line)
      : accelerator_failure(
            failure == cudaErrorMemoryAllocation ? engine::errc::vram_oom : engine::errc::cuda_error,
            std::string(call) + ": " + cudaGetErrorString(failure) + " (" + cudaGetErrorName(failure) + ", " +
                file + ":" + std::to_string(line) + ")"),
        status(failure) {}
  cudaError_t status;
};

inline void check_cuda(cudaError_t status, const char* call, const char* file, int line) {
  if (status != cudaSuccess) throw cuda_failure(status, call, file, line);
}
/// Launchers of kernels/ return the status as an int.
inline void check_cuda(int status, const char* call, const char* file, int line) {
  check_cuda(static_cast<cudaError_t>(status), call, file, line);
}

/// Statuses that say that the device itself is gone or broken, not that a kernel failed: a new process on the
/// same device would fail as well. "Unknown" is what a device that has left the bus reports.
[[nodiscard]] constexpr bool is_device_lost(cudaError_t status) noexcept {
  return status == cudaErrorDevicesUnavailable || status == cudaErrorNoDevice ||
         status == cudaErrorInvalidDevice || status == cudaErrorECCUncorrectable ||
         status == cudaErrorNvlinkUncorrectable || status == cudaErrorSystemNotReady ||
         status == cudaErrorUnknown;
}

}  // namespace orcd::gpu

/// Throws cuda_failure with the call and its place unless it succeeds.
#define ORCD_CUDA(call) ::orcd::gpu::check_cuda((call), #call, __FILE__, __LINE__)
