#include "gpu/vram_arena.hpp"

#include <cuda.h>

#include <utility>

#include "gpu/allocation_counter.hpp"

namespace orcd::gpu {
namespace {

/// The driver calls of an arena, found at run time: the program starts on a host without a driver.
struct driver {
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) address_free = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
};

template <class F>
void find(F& function, const char* name) {
  void* pointer = nullptr;
  cudaDriverEntryPointQueryResult found{};
  ORCD_CUDA(cudaGetDriverEntryPointByVersion(name, &pointer, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess) ORCD_CUDA(cudaErrorNotSupported);
  function = reinterpret_cast<F>(pointer);
}

const driver& driver_calls() {
  static const driver calls = [] {
    driver d;
    find(d.granularity, "cuMemGetAllocationGranularity");
    find(d.create, "cuMemCreate");
    find(d.release, "cuMemRelease");
    find(d.reserve, "cuMemAddressReserve");
    find(d.address_free, "cuMemAddressFree");
    find(d.map, "cuMemMap");
    find(d.unmap, "cuMemUnmap");
    find(d.set_access, "cuMemSetAccess");
    return d;
  }();
  return calls;
}

/// The runtime's code of a driver failure that matters here.
void check_driver(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  check_cuda(status == CUDA_ERROR_OUT_OF_MEMORY ? cudaErrorMemoryAllocation : cudaErrorUnknown, call,
             __FILE__, __LINE__);
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return p;
}

}  // namespace

vram_arena::vram_arena(int device, std::uint64_t bytes) {
  const driver& d = driver_calls();
  const CUmemAllocationProp properties = properties_of(device);
  std::size_t granularity = 0;
  check_driver(d.granularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
               "cuMemGetAllocationGranularity");
  const std::uint64_t rounded = (bytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle handle = 0;
  if (allocation_must_fail()) check_driver(CUDA_ERROR_OUT_OF_MEMORY, "cuMemCreate (a fault of a test)");
  check_driver(d.create(&handle, rounded, &properties, 0), "cuMemCreate");
  handle_ = handle;
  bytes_ = rounded;
  CUdeviceptr address = 0;
  CUresult status = d.reserve(&address, rounded, 0, 0, 0);
  if (status == CUDA_SUCCESS) {
    base_ = reinterpret_cast<std::byte*>(address);
    status = d.map(address, rounded, 0, handle, 0);
    if (status == CUDA_SUCCESS) {
      CUmemAccessDesc access{};
      access.location = properties.location;
      access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
      status = d.set_access(address, rounded, &access, 1);
      if (status != CUDA_SUCCESS) d.unmap(address, rounded);
    }
    if (status != CUDA_SUCCESS) {
      d.address_free(address, rounded);
      base_ = nullptr;
    }
  }
  if (status != CUDA_SUCCESS) {
    d.release(handle);
    handle_ = 0;
    check_driver(status, "mapping an arena");
  }
  device_memory_taken(rounded);
  // Zeroed before this returns: other streams do not wait for the default one.
  ORCD_CUDA(cudaMemset(base_, 0, rounded));
  ORCD_CUDA(cudaStreamSynchronize(nullptr));
}

vram_arena::~vram_arena() {
  if (base_ == nullptr) return;
  const driver& d = driver_calls();
  const auto address = reinterpret_cast<CUdeviceptr>(base_);
  d.unmap(address, bytes_);
  d.address_free(address, bytes_);
  d.release(handle_);
  device_memory_freed(bytes_);
}

vram_arena::vram_arena(vram_arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      handle_(std::exchange(other.handle_, 0)) {}

vram_arena& vram_arena::operator=(vram_arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(handle_, other.handle_);
  return *this;
}

}  // namespace orcd::gpu
