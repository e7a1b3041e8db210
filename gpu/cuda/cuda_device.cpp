#include "gpu/cuda/cuda_device.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>

#include "gpu/cuda/cuda_error.hpp"

namespace orcd::gpu {
namespace {

using engine::errc;
using engine::error;

/// Whether the driver has made its control device: on bare metal and in containers, or under WSL.
bool driver_files_exist() {
  return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string out = "GPU";
  for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    out += digits.data();
  }
  return out;
}

gpu_info info_of(int index) {
  cudaDeviceProp properties{};
  ORCD_CUDA(cudaGetDeviceProperties(&properties, index));
  return {.index = index,
          .name = properties.name,
          .uuid = uuid_text(properties.uuid),
          .capability_major = properties.major,
          .capability_minor = properties.minor,
          .sm_count = properties.multiProcessorCount,
          .memory_bytes = properties.totalGlobalMem};
}

/// "driver 13.0, runtime 13.0" for the message about a driver that is too old or not there.
std::string versions() {
  int driver = 0;
  int runtime = 0;
  static_cast<void>(cudaDriverGetVersion(&driver));
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  const auto text = [](int v) {
    return v == 0 ? std::string("none") : std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
  };
  return "driver for CUDA " + text(driver) + ", built for CUDA " + text(runtime);
}

/// A driver may refuse a limit: then it keeps its own.
void set_limit(cudaLimit limit, std::size_t bytes) {
  const cudaError_t status = cudaDeviceSetLimit(limit, bytes);
  if (status == cudaErrorInvalidValue || status == cudaErrorUnsupportedLimit) {
    static_cast<void>(cudaGetLastError());
    return;
  }
  ORCD_CUDA(status);
}

/// The device heap is for malloc() in kernels, which nothing here calls; it has no influence on managed
/// memory, which is never allocated. The stack is reserved for every thread that the GPU could hold, 1 KiB
/// by default; no kernel here has an array of such a size, and the driver raises the limit for one that had.
void configure_context() {
  set_limit(cudaLimitMallocHeapSize, 0);
  set_limit(cudaLimitStackSize, 256);
}

}  // namespace

engine::result<std::vector<gpu_info>> list_gpus(bool insist) {
  if (!insist && !driver_files_exist()) {
    return error(errc::worker_start_failed, "the NVIDIA driver's device files are missing");
  }
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return error(errc::worker_start_failed,
                 std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + "; " +
                     versions() + (driver_files_exist() ? ")" : "; the driver's device files are missing)"));
  }
  std::vector<gpu_info> gpus;
  try {
    for (int i = 0; i < count; ++i) gpus.push_back(info_of(i));
  } catch (const cuda_failure& failure) {
    return error(errc::worker_start_failed, failure.what());
  }
  return gpus;
}

wait_clock real_wait_clock() {
  return {.now = [] { return std::chrono::steady_clock::now(); },
          .sleep =
              [](std::chrono::milliseconds pause) {
                std::this_thread::sleep_for(pause);
                return true;
              }};
}

engine::result<cuda_device> cuda_device::open(const gpu_choice& choice, device_end end,
                                              const wait_policy& policy, const wait_clock& clock) {
  const auto gpus = wait_for_gpus([](bool last_try) { return list_gpus(last_try); }, policy, clock);
  if (!gpus) return gpus.error();
  auto chosen = choose_gpu(*gpus, choice);
  if (!chosen) return chosen.error();
  try {
    ORCD_CUDA(cudaSetDevice(chosen->index));
    cuda_device device(*chosen, end);
    configure_context();
    // The first call that needs the primary context; a device in exclusive use by others fails here.
    ORCD_CUDA(cudaFree(nullptr));
    return device;
  } catch (const cuda_failure& failure) {
    return error(errc::cuda_error,
                 std::string("using GPU ") + describe({&*chosen, 1}) + ": " + failure.what());
  }
}

cuda_device::cuda_device(cuda_device&& other) noexcept
    : info_(other.info_), end_(other.end_), open_(std::exchange(other.open_, false)) {}

cuda_device& cuda_device::operator=(cuda_device&& other) noexcept {
  std::swap(info_, other.info_);
  std::swap(end_, other.end_);
  std::swap(open_, other.open_);
  return *this;
}

cuda_device::~cuda_device() {
  if (!open_ || end_ != device_end::reset) return;
  // What is reset is the calling thread's current device.
  if (cudaSetDevice(info_.index) == cudaSuccess) static_cast<void>(cudaDeviceReset());
}

device_memory cuda_device::memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  ORCD_CUDA(cudaMemGetInfo(&free, &total));
  return {.free_bytes = free, .total_bytes = total};
}

std::uint64_t cuda_device::device_heap_bytes() const {
  std::size_t bytes = 0;
  ORCD_CUDA(cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize));
  return bytes;
}

}  // namespace orcd::gpu
