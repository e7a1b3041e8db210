// How much memory a GPU of this machine has, as CUDA's driver tells it at run time. No context is made on it
// and none of its memory is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/base/error.hpp"

namespace orcd::app {

inline constexpr std::uint32_t gpu_index_max = 63;

/// Functions of libcuda.so.1 by its own names; each returns 0 or one of its error numbers.
struct driver_functions {
  int (*init)(unsigned flags) = nullptr;
  int (*device_count)(int* count) = nullptr;
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*device_name)(char* name, int bytes, int device) = nullptr;
  int (*device_bytes)(std::size_t* bytes, int device) = nullptr;  ///< cuDeviceTotalMem_v2
};

struct gpu_reading {
  std::string name{};       ///< "NVIDIA H100 80GB HBM3"
  std::uint64_t bytes = 0;  ///< all that programs can have, also what others have now
  bool operator==(const gpu_reading&) const = default;
};

/// The GPU that CUDA, and with it --gpu-device, counts as `index`. Errors (not_ready), one line each: no GPU
/// is here, none of that number, or the driver does not tell.
[[nodiscard]] engine::result<gpu_reading> read_gpu(const driver_functions& driver, std::uint32_t index);
/// The same of this machine's driver, which stays loaded. Errors (not_ready): also that there is none.
[[nodiscard]] engine::result<gpu_reading> read_gpu(std::uint32_t index);

}  // namespace orcd::app
