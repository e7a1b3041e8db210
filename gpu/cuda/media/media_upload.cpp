#include "gpu/cuda/media/media_upload.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/plan/media/media_layout.hpp"

namespace orcd::gpu {

media_upload::media_upload(bool pinned) : stream_(make_stream()), order_(make_event()) {
  if (pinned) pinned_ = pinned_buffer(bytes(pinned));
  for (event& free : slot_free_) free = make_event();
}

media_upload::~media_upload() {
  // After a failure copies may still read the buffer.
  if (stream_.get() != nullptr) static_cast<void>(cudaStreamSynchronize(stream_.get()));
}

std::uint64_t media_upload::bytes(bool pinned) noexcept {
  return pinned ? media_pinned_bytes : 0;
}

void media_upload::begin(cudaStream_t stream) {
  ORCD_CUDA(cudaEventRecord(order_.get(), stream));
  ORCD_CUDA(cudaStreamWaitEvent(stream_.get(), order_.get(), 0));
}

void media_upload::send(const void* from, std::uint64_t size, void* to) {
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  while (size > 0) {
    const std::uint64_t piece = std::min(size, media_piece_bytes);
    const std::byte* sent = source;
    const std::uint32_t slot = next_++ % slots;
    if (pinned_.size() > 0) {
      ORCD_CUDA(cudaEventSynchronize(slot_free_[slot].get()));
      std::byte* const held = pinned_.data() + slot * media_piece_bytes;
      std::memcpy(held, source, piece);
      sent = held;
    }
    ORCD_CUDA(cudaMemcpyAsync(target, sent, piece, cudaMemcpyHostToDevice, stream_.get()));
    ORCD_CUDA(cudaEventRecord(slot_free_[slot].get(), stream_.get()));
    source += piece;
    target += piece;
    size -= piece;
  }
  // Until then the driver may read pageable memory.
  if (pinned_.size() == 0) ORCD_CUDA(cudaStreamSynchronize(stream_.get()));
}

void media_upload::end(cudaStream_t stream) {
  ORCD_CUDA(cudaEventRecord(order_.get(), stream_.get()));
  ORCD_CUDA(cudaStreamWaitEvent(stream, order_.get(), 0));
}

}  // namespace orcd::gpu
