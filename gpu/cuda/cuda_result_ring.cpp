#include "gpu/cuda/cuda_result_ring.hpp"

#include <atomic>
#include <cstring>

namespace orcd::gpu {

cuda_result_ring::cuda_result_ring(std::uint32_t rows, std::uint32_t depth, bool pinned,
                                   kernels::sample_result* device)
    : rows_(rows), pinned_(pinned), entries_(depth) {
  const std::size_t count = std::size_t{rows} * depth;
  if (pinned) {
    host_ = pinned_buffer(count * sizeof(kernels::sample_result));
    std::memset(host_.data(), 0, host_.size());
    target_ = reinterpret_cast<kernels::sample_result*>(host_.data());
  } else {
    copies_.resize(count);
    target_ = device;
    copy_stream_ = make_stream();
  }
  for (entry& e : entries_) e.end = make_event();
}

void cuda_result_ring::launched(std::uint32_t index, std::uint32_t results, std::uint32_t ticket,
                                cudaStream_t stream) {
  entry& e = entries_[index];
  e.results = results;
  e.ticket = ticket;
  if (by_event(e)) ORCD_CUDA(cudaEventRecord(e.end.get(), stream));
}

bool cuda_result_ring::ready(std::uint32_t index) const {
  const entry& e = entries_[index];
  if (by_event(e)) {
    const cudaError_t status = cudaEventQuery(e.end.get());
    if (status == cudaErrorNotReady) return false;
    ORCD_CUDA(status);
    return true;
  }
  kernels::sample_result* first = target_ + std::size_t{index} * rows_;
  for (std::uint32_t i = 0; i < e.results; ++i) {
    if (std::atomic_ref(first[i].ticket).load(std::memory_order_acquire) != e.ticket) return false;
  }
  return true;
}

std::span<const kernels::sample_result> cuda_result_ring::results(std::uint32_t index) {
  const std::size_t offset = std::size_t{index} * rows_;
  const std::uint32_t count = entries_[index].results;
  if (pinned_) return {target_ + offset, count};
  if (count > 0) {
    ORCD_CUDA(cudaMemcpyAsync(copies_.data() + offset, target_ + offset,
                              count * sizeof(kernels::sample_result), cudaMemcpyDeviceToHost,
                              copy_stream_.get()));
    ORCD_CUDA(cudaStreamSynchronize(copy_stream_.get()));
  }
  return {copies_.data() + offset, count};
}

}  // namespace orcd::gpu
