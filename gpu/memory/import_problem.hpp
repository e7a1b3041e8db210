// What it means that the GPU's driver does not import another process's memory. The numbers are CUresult's,
// so that this is tested without a driver. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "engine/base/error.hpp"

namespace orcd::gpu {

struct import_problem {
  engine::errc code = engine::errc::cuda_error;
  std::string_view why{};  ///< the end of a sentence about the weights
};

/// Nullopt for success. stale_weights: the descriptor is not of such memory, which another start does not
/// change. insufficient_vram: there is no room for the mapping. worker_start_failed: processes cannot share
/// memory here at all. cuda_error: everything else.
[[nodiscard]] constexpr std::optional<import_problem> import_problem_of(int driver_status) noexcept {
  using engine::errc;
  switch (driver_status) {
    case 0: return std::nullopt;
    case 1:    // invalid value
    case 400:  // invalid handle
      return import_problem{errc::stale_weights, "are no memory that this GPU's driver exported"};
    case 2:
      return import_problem{errc::insufficient_vram,
                            "do not fit: the driver has no memory or addresses left"};
    case 101:  // invalid device
    case 201:  // invalid context
    case 217:  // peer access unsupported
      return import_problem{errc::stale_weights, "are in the memory of another device"};
    case 304:
      return import_problem{errc::cuda_error, "were refused by the operating system: limits or permissions"};
    case 800:  // not permitted
    case 801:  // not supported
      return import_problem{
          errc::worker_start_failed,
          "cannot be shared here: the driver does not let processes share memory (a container, "
          "MIG, MPS); use --share-weights off"};
    case 46:   // device unavailable
    case 100:  // no device
    case 214:  // ECC uncorrectable
    case 220:  // NVLink uncorrectable
      return import_problem{errc::cuda_error, "could not be imported: the GPU is lost or broken"};
    default: return import_problem{errc::cuda_error, "could not be imported"};
  }
}

}  // namespace orcd::gpu
