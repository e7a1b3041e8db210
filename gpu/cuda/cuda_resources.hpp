// Owners of CUDA objects: move-only, constructors throw cuda_failure, destructors never do. GPU thread only.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <utility>

#include "gpu/cuda/cuda_error.hpp"
#include "gpu/memory/allocation_counter.hpp"

namespace orcd::gpu {

/// One handle with the function that destroys it.
template <class Handle, auto destroy>
class cuda_handle {
 public:
  cuda_handle() = default;
  explicit cuda_handle(Handle handle) noexcept : handle_(handle) {}
  cuda_handle(cuda_handle&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  cuda_handle& operator=(cuda_handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~cuda_handle() {
    if (handle_ != Handle{}) static_cast<void>(destroy(handle_));
  }
  [[nodiscard]] Handle get() const noexcept { return handle_; }

 private:
  Handle handle_{};
};

using owned_stream = cuda_handle<cudaStream_t, cudaStreamDestroy>;
using event = cuda_handle<cudaEvent_t, cudaEventDestroy>;
using graph = cuda_handle<cudaGraph_t, cudaGraphDestroy>;
using graph_exec = cuda_handle<cudaGraphExec_t, cudaGraphExecDestroy>;

[[nodiscard]] inline owned_stream make_stream() {
  cudaStream_t handle = nullptr;
  ORCD_CUDA(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking));
  return owned_stream(handle);
}
[[nodiscard]] inline event make_event() {
  cudaEvent_t handle = nullptr;
  ORCD_CUDA(cudaEventCreateWithFlags(&handle, cudaEventDisableTiming));
  return event(handle);
}
/// One that also knows when.
[[nodiscard]] inline event make_timing_event() {
  cudaEvent_t handle = nullptr;
  ORCD_CUDA(cudaEventCreate(&handle));
  return event(handle);
}

/// Pinned host memory: the staging ring while loading, and the small control block after.
class pinned_buffer {
 public:
  pinned_buffer() = default;
  explicit pinned_buffer(std::size_t bytes) : bytes_(bytes) {
    ORCD_CUDA(cudaHostAlloc(&data_, bytes, cudaHostAllocDefault));
    pinned_memory_taken(bytes);
  }
  pinned_buffer(pinned_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  pinned_buffer& operator=(pinned_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~pinned_buffer() {
    if (data_ == nullptr) return;
    static_cast<void>(cudaFreeHost(data_));
    pinned_memory_freed(bytes_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Device memory that is not part of an arena: staging while weights are loaded.
class device_buffer {
 public:
  device_buffer() = default;
  explicit device_buffer(std::size_t bytes) : bytes_(bytes) {
    ORCD_CUDA(allocation_must_fail() ? cudaErrorMemoryAllocation : cudaMalloc(&data_, bytes));
    device_memory_taken(bytes);
  }
  device_buffer(device_buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  device_buffer& operator=(device_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~device_buffer() {
    if (data_ == nullptr) return;
    static_cast<void>(cudaFree(data_));
    device_memory_freed(bytes_);
  }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(data_); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace orcd::gpu
