// A library for LD_PRELOAD that makes the GPU of a program fail, so that the shipped worker is tested and not
// a build with a switch in it. GPU_FAULT chooses:
//   oom:N  the N-th allocation of an arena (cuMemCreate) finds no memory, 1 is the first
//   lost   every launch, copy and query reports an uncorrectable memory error, as a dying GPU does
//   wild   a kernel of this library writes where nothing is: the context is broken, truly
//   host   the driver says of every pointer that it is host memory
// All but the first begin when the file named by GPU_FAULT_WHEN exists.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace {

using find_function = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
using word = std::uintptr_t;
/// Any driver function of up to 11 arguments, none of them floating point.
using any_function = CUresult (*)(word, word, word, word, word, word, word, word, word, word, word);

std::string chosen() {
  const char* fault = std::getenv("GPU_FAULT");
  return fault == nullptr ? "" : fault;
}

std::atomic<bool> begun{false};

// --- lost -----------------------------------------------------------------------------------------

constexpr std::size_t functions_max = 256;
std::array<any_function, functions_max> real_functions{};
std::atomic<std::size_t> functions_used{0};

template <std::size_t I>
CUresult fail_or_call(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j,
                      word k) {
  if (begun.load(std::memory_order_relaxed)) return CUDA_ERROR_ECC_UNCORRECTABLE;
  return real_functions[I](a, b, c, d, e, f, g, h, i, j, k);
}

template <std::size_t... I>
constexpr std::array<any_function, sizeof...(I)> make_wrappers(std::index_sequence<I...>) {
  return {&fail_or_call<I>...};
}

bool touches_the_gpu(std::string_view name) {
  return name.starts_with("cuLaunchKernel") || name.starts_with("cuMemcpy") || name.starts_with("cuMemset") ||
         name == "cuGraphLaunch" || name == "cuStreamQuery" || name == "cuStreamSynchronize" ||
         name == "cuEventQuery" || name == "cuEventSynchronize" || name == "cuCtxSynchronize";
}

void* losing(void* function) {
  static constexpr auto wrappers = make_wrappers(std::make_index_sequence<functions_max>());
  const std::size_t i = functions_used.fetch_add(1);
  if (i >= functions_max) return function;
  real_functions[i] = reinterpret_cast<any_function>(function);
  return reinterpret_cast<void*>(wrappers[i]);
}

// --- host -----------------------------------------------------------------------------------------

decltype(&cuPointerGetAttributes) real_attributes = nullptr;

CUresult attributes_of_host_memory(unsigned count, CUpointer_attribute* attributes, void** data,
                                   CUdeviceptr pointer) {
  const CUresult status = real_attributes(count, attributes, data, pointer);
  if (status != CUDA_SUCCESS || !begun.load()) return status;
  for (unsigned i = 0; i < count; ++i) {
    if (attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE)
      *static_cast<unsigned*>(data[i]) = CU_MEMORYTYPE_HOST;
  }
  return status;
}

// --- oom ------------------------------------------------------------------------------------------

decltype(&cuMemCreate) real_create = nullptr;
std::atomic<int> creates{0};
int failing_create = 0;

CUresult create_or_fail(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                        const CUmemAllocationProp* properties, unsigned long long flags) {
  if (creates.fetch_add(1) + 1 == failing_create) return CUDA_ERROR_OUT_OF_MEMORY;
  return real_create(handle, bytes, properties, flags);
}

// --- how the faults get in ------------------------------------------------------------------------

find_function real_find = nullptr;

template <class F>
void* instead(F& real, F wrapper, void* function) {
  real = reinterpret_cast<F>(function);
  return reinterpret_cast<void*>(wrapper);
}

/// What the CUDA runtime finds instead of cuGetProcAddress.
CUresult find_or_replace(const char* name, void** function, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult* found) {
  const CUresult status = real_find(name, function, version, flags, found);
  if (status != CUDA_SUCCESS || function == nullptr || *function == nullptr) return status;
  const std::string fault = chosen();
  const std::string_view asked = name;
  // From CUDA 12 on it has these arguments under both names.
  if (asked == "cuGetProcAddress" && version >= 12000) {
    *function = reinterpret_cast<void*>(&find_or_replace);
  } else if (fault == "lost" && touches_the_gpu(asked)) {
    *function = losing(*function);
  } else if (fault == "host" && asked == "cuPointerGetAttributes") {
    *function = instead(real_attributes, &attributes_of_host_memory, *function);
  } else if (fault.starts_with("oom:") && asked == "cuMemCreate") {
    failing_create = std::atoi(fault.c_str() + 4);
    *function = instead(real_create, &create_or_fail, *function);
  }
  return status;
}

__global__ void write_where_nothing_is(int* nowhere) {
  *nowhere = 1;
}

void go_wild() {
  cudaStream_t stream = nullptr;
  if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
  write_where_nothing_is<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(std::uintptr_t{64}));
  static_cast<void>(cudaStreamSynchronize(stream));
}

[[gnu::constructor]] void watch() {
  const char* file = std::getenv("GPU_FAULT_WHEN");
  if (file == nullptr) return;
  // Joined when the program ends.
  static const std::jthread watcher([path = std::string(file)](const std::stop_token& stop) {
    while (access(path.c_str(), F_OK) != 0) {
      if (stop.stop_requested()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    begun = true;
    if (chosen() == "wild") go_wild();
  });
}

}  // namespace

/// The runtime is linked statically and asks the driver's library for one function, which finds the others.
extern "C" [[gnu::visibility("default")]] void* dlsym(void* library, const char* name) noexcept {
  using lookup = void* (*)(void*, const char*);
  static const auto real = reinterpret_cast<lookup>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  void* found = real(library, name);
  if (found == nullptr || std::string_view(name) != "cuGetProcAddress_v2") return found;
  real_find = reinterpret_cast<find_function>(found);
  return reinterpret_cast<void*>(&find_or_replace);
}
