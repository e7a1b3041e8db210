// A read-only mapping of a whole regular file that survives the file's truncation.
//
// Touching a page beyond the new end raises SIGBUS, which would end the process. A handler, installed with
// each mapping, puts zero pages there instead and marks the mapping as damaged: the reader goes on with
// zeros, and the owner of the mapping must check intact() before it trusts what it has read. A SIGBUS
// anywhere else goes to the handler that was there before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/gguf/file_stamp.hpp"
#include "engine/gguf/location.hpp"

namespace orcd::engine {

class mapped_file {
 public:
  /// Opens and maps a file. Refuses what is no regular file or shared-memory object, and an empty file.
  /// `name` is its name in messages.
  [[nodiscard]] static result<mapped_file> open(const model_location& location, std::string_view name);

  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();

  [[nodiscard]] std::span<const std::byte> image() const noexcept { return {data_, size_}; }

  /// False once a read hit a page that the file no longer has. Lock-free; any thread.
  [[nodiscard]] bool intact() const noexcept;
  /// The file's stamp from before it was mapped, for file_watch.
  [[nodiscard]] const file_stamp& stamp() const noexcept { return stamp_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  mapped_file() = default;
  void close() noexcept;

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  int guard_ = -1;  ///< its row in the handler's table
  file_stamp stamp_;
};

}  // namespace orcd::engine
