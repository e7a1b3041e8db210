#include "gpu/cuda/vram_arena.hpp"

#include <cuda.h>

#include <map>
#include <string>

#include "gpu/memory/allocation_counter.hpp"
#include "gpu/memory/import_problem.hpp"

namespace orcd::gpu {
namespace {

using engine::errc;

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
  decltype(&cuMemExportToShareableHandle) export_handle = nullptr;
  decltype(&cuMemImportFromShareableHandle) import_handle = nullptr;
  decltype(&cuMemGetAllocationPropertiesFromHandle) properties = nullptr;
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
    find(d.export_handle, "cuMemExportToShareableHandle");
    find(d.import_handle, "cuMemImportFromShareableHandle");
    find(d.properties, "cuMemGetAllocationPropertiesFromHandle");
    return d;
  }();
  return calls;
}

/// The runtime's codes are the driver's, number by number.
cudaError_t code_of(CUresult status) {
  return static_cast<cudaError_t>(status);
}

void check_driver(CUresult status, const char* call) {
  check_cuda(code_of(status), call, __FILE__, __LINE__);
}

[[noreturn]] void refuse_import(errc code, const std::string& why) {
  throw engine::accelerator_failure(code, "the shared memory " + why);
}

void check_import(CUresult status, const char* call) {
  const auto problem = import_problem_of(static_cast<int>(status));
  if (!problem) return;
  refuse_import(problem->code,
                std::string(problem->why) + " (" + call + ": " + cudaGetErrorName(code_of(status)) + ")");
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return p;
}

/// One of a device: what arena_mapping needs of the driver.
class device_driver final : public arena_driver {
 public:
  explicit device_driver(int device) : calls_(driver_calls()), properties_(properties_of(device)) {}

  [[nodiscard]] std::uint64_t round_up(std::uint64_t bytes) const {
    std::size_t granularity = 0;
    check_driver(calls_.granularity(&granularity, &properties_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                 "cuMemGetAllocationGranularity");
    return (bytes + granularity - 1) / granularity * granularity;
  }
  std::uint64_t create(std::uint64_t bytes) override {
    const std::string call = "cuMemCreate of " + std::to_string(bytes) + " bytes";
    if (allocation_must_fail())
      check_driver(CUDA_ERROR_OUT_OF_MEMORY, (call + " (a fault of a test)").c_str());
    CUmemGenericAllocationHandle handle = 0;
    check_driver(calls_.create(&handle, bytes, &properties_, 0), call.c_str());
    return handle;
  }
  void release(std::uint64_t handle) noexcept override { calls_.release(handle); }
  std::uintptr_t reserve(std::uint64_t bytes) override {
    CUdeviceptr address = 0;
    check_driver(calls_.reserve(&address, bytes, 0, 0, 0), "cuMemAddressReserve");
    return address;
  }
  void give_back(std::uintptr_t address, std::uint64_t bytes) noexcept override {
    calls_.address_free(address, bytes);
  }
  void map(std::uintptr_t address, std::uint64_t bytes, std::uint64_t handle) override {
    check_driver(calls_.map(address, bytes, 0, handle, 0), "cuMemMap");
  }
  void unmap(std::uintptr_t address, std::uint64_t bytes) noexcept override { calls_.unmap(address, bytes); }
  void open(std::uintptr_t address, std::uint64_t bytes, arena_access access) override {
    CUmemAccessDesc allowed{};
    allowed.location = properties_.location;
    allowed.flags =
        access == arena_access::read ? CU_MEM_ACCESS_FLAGS_PROT_READ : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    check_driver(calls_.set_access(address, bytes, &allowed, 1), "cuMemSetAccess");
  }
  /// Done before it returns: other streams do not wait for the default one.
  void zero(std::uintptr_t address, std::uint64_t bytes) override {
    ORCD_CUDA(cudaMemset(reinterpret_cast<void*>(address), 0, bytes));
    ORCD_CUDA(cudaStreamSynchronize(nullptr));
  }
  engine::file_descriptor export_fd(std::uint64_t handle) override {
    int fd = -1;
    check_driver(calls_.export_handle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
                 "cuMemExportToShareableHandle");
    return engine::file_descriptor(fd);
  }
  /// Its size cannot be asked for: mapping more than there is fails, and the content is hashed.
  std::uint64_t import_fd(int fd, std::uint64_t, arena_access) override {
    CUmemGenericAllocationHandle handle = 0;
    void* const given = reinterpret_cast<void*>(static_cast<std::uintptr_t>(fd));
    check_import(calls_.import_handle(&handle, given, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                 "cuMemImportFromShareableHandle");
    CUmemAllocationProp found{};
    const bool known = calls_.properties(&found, handle) == CUDA_SUCCESS;
    if (known && found.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        found.location.id == properties_.location.id) {
      return handle;
    }
    calls_.release(handle);
    refuse_import(errc::stale_weights, "are in the memory of another device");
  }
  void seal(std::uint64_t) override {}  // each mapping has its own access

 private:
  const driver& calls_;
  CUmemAllocationProp properties_;
};

/// What a mapping says of imported memory that is shorter than it should be.
void refuse_if_short(const cuda_failure& failure) {
  // Drivers say one or the other.
  if (failure.status != cudaErrorInvalidValue && failure.status != cudaErrorNotSupported) return;
  refuse_import(errc::stale_weights, std::string("are shorter than this model's: ") + failure.what());
}

/// Arenas of all devices share these; they live as long as the process.
device_driver& driver_of(int device) {
  static std::map<int, device_driver> drivers;
  return drivers.try_emplace(device, device).first->second;
}

}  // namespace

vram_arena::vram_arena(int device, std::uint64_t bytes)
    : mapping_(driver_of(device), size_of(device, bytes)) {
  device_memory_taken(mapping_.bytes());
}

vram_arena::vram_arena(int device, int fd, std::uint64_t bytes, arena_access access) try
    : mapping_(driver_of(device), fd, size_of(device, bytes), access), imported_(true) {
} catch (const cuda_failure& failure) {
  refuse_if_short(failure);
  throw;
}

vram_arena::~vram_arena() {
  if (mapping_.bytes() == 0) return;
  // A copy from pageable memory may still be on its way after the call.
  static_cast<void>(cudaDeviceSynchronize());
  if (!imported_) device_memory_freed(mapping_.bytes());
}

std::uint64_t vram_arena::size_of(int device, std::uint64_t bytes) {
  return driver_of(device).round_up(bytes);
}

void vram_arena::drop() {
  ORCD_CUDA(cudaDeviceSynchronize());
  mapping_.drop();
  if (!std::exchange(imported_, true)) device_memory_freed(mapping_.bytes());
}

void vram_arena::map_again(int fd) try { mapping_.map_again(fd); } catch (const cuda_failure& failure) {
  refuse_if_short(failure);
  throw;
}

void vram_arena::freeze() {
  ORCD_CUDA(cudaDeviceSynchronize());
  mapping_.freeze();
}

}  // namespace orcd::gpu
