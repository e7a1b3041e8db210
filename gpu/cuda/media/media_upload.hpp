// Brings pixels, frames and tables of media to the GPU through a small pinned buffer, in a stream beside that
// of the steps: what is sent in pieces waits once for what reads the old contents, and not piece by piece.
// GPU thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/cuda/cuda_resources.hpp"

namespace orcd::gpu {

class media_upload {
 public:
  /// Without `pinned` copies are from pageable memory. Throws cuda_failure.
  explicit media_upload(bool pinned);
  ~media_upload();
  media_upload(const media_upload&) = delete;
  media_upload& operator=(const media_upload&) = delete;
  /// Of pinned memory.
  [[nodiscard]] static std::uint64_t bytes(bool pinned) noexcept;

  /// What send() writes to has been read by all that is enqueued in `stream` so far, and is not before that
  /// is done.
  void begin(cudaStream_t stream);
  /// Enqueues a copy; `from` may change when it returns.
  void send(const void* from, std::uint64_t bytes, void* to);
  /// What `stream` gets from now on finds what was sent.
  void end(cudaStream_t stream);

 private:
  static constexpr std::uint32_t slots = 2;

  owned_stream stream_;
  pinned_buffer pinned_;
  event slot_free_[slots];  ///< its last copy has been made
  event order_;             ///< between the two streams
  std::uint32_t next_ = 0;
};

}  // namespace orcd::gpu
