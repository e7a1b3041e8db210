#include "app/inspect/gpu_reading.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>

namespace orcd::app {
namespace {

using engine::errc;
using engine::error;
using engine::result;

constexpr const char* library = "libcuda.so.1";
constexpr int no_device = 100;  // CUDA_ERROR_NO_DEVICE

error unknown(const std::string& why) {
  return {errc::not_ready, "the memory of a GPU is not known: " + why + "; --vram-mib says how much it is",
          "gpu"};
}

error failed(const char* function, int code) {
  return unknown(std::string(function) + "() says " + std::to_string(code));
}

template <class Function>
bool find(void* in, const char* name, Function*& to) {
  to = reinterpret_cast<Function*>(::dlsym(in, name));
  return to != nullptr;
}

result<driver_functions> load_driver() {
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return unknown(std::string("no NVIDIA driver is here (no ") + library + ")");
  driver_functions out;
  const bool whole = find(opened, "cuInit", out.init) && find(opened, "cuDeviceGetCount", out.device_count) &&
                     find(opened, "cuDeviceGet", out.device_get) &&
                     find(opened, "cuDeviceGetName", out.device_name) &&
                     find(opened, "cuDeviceTotalMem_v2", out.device_bytes);
  if (!whole) return unknown(std::string(library) + " has not all of CUDA's functions");
  return out;
}

}  // namespace

result<gpu_reading> read_gpu(const driver_functions& driver, std::uint32_t index) {
  int count = 0;
  const int begun = driver.init(0);
  if (begun != 0 && begun != no_device) return failed("cuInit", begun);
  if (begun == 0) {
    if (const int code = driver.device_count(&count); code != 0) return failed("cuDeviceGetCount", code);
  }
  if (count <= 0) return unknown("the driver has no GPU");
  if (index >= static_cast<std::uint32_t>(count)) {
    return unknown("GPU " + std::to_string(index) + " is not here, the highest is " +
                   std::to_string(count - 1));
  }
  int device = 0;
  if (const int code = driver.device_get(&device, static_cast<int>(index)); code != 0) {
    return failed("cuDeviceGet", code);
  }
  std::array<char, 256> name{};
  if (const int code = driver.device_name(name.data(), static_cast<int>(name.size()) - 1, device);
      code != 0) {
    return failed("cuDeviceGetName", code);
  }
  std::size_t bytes = 0;
  if (const int code = driver.device_bytes(&bytes, device); code != 0) {
    return failed("cuDeviceTotalMem", code);
  }
  if (bytes == 0) return unknown("the driver says that it has none");
  return gpu_reading{{name.begin(), std::find(name.begin(), name.end(), '\0')}, bytes};
}

result<gpu_reading> read_gpu(std::uint32_t index) {
  const auto driver = load_driver();
  if (!driver) return driver.error();
  return read_gpu(*driver, index);
}

}  // namespace orcd::app
