// The probe of residency_audit.hpp that asks CUDA.
#include "gpu/cuda/cuda_error.hpp"
#include "gpu/memory/residency_audit.hpp"

namespace orcd::gpu {

pointer_probe cuda_pointer_probe() {
  return [](const void* pointer) -> pointer_facts {
    cudaPointerAttributes attributes{};
    const cudaError_t status = cudaPointerGetAttributes(&attributes, pointer);
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return {.kind = memory_kind::unknown,
              .device = -1,
              .host_pointer = nullptr,
              .failure = std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")"};
    }
    pointer_facts facts;
    facts.device = attributes.device;
    facts.host_pointer = attributes.hostPointer;
    switch (attributes.type) {
      case cudaMemoryTypeDevice: facts.kind = memory_kind::device; break;
      case cudaMemoryTypeHost: facts.kind = memory_kind::host; break;
      case cudaMemoryTypeManaged: facts.kind = memory_kind::managed; break;
      default: facts.kind = memory_kind::unknown; break;
    }
    return facts;
  };
}

}  // namespace orcd::gpu
