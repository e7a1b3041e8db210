// A read-only mapping of a whole regular file, and what happens when somebody truncates that file
// while it is mapped.
//
// Touching a page beyond the new end raises SIGBUS, which would end the process. A handler, installed
// with each mapping, puts zero pages there instead and marks the mapping damaged: the reader goes
// on with zeros, and whoever owns the mapping asks intact() before it believes what it read. A SIGBUS
// anywhere else goes to the handler that was there before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/gguf/location.hpp"

namespace orcd::engine {

class mapped_file {
 public:
  /// Opens and maps. Refuses what is not a regular file or shared-memory object, and an empty one.
  /// `name` stands for the file in messages.
  [[nodiscard]] static result<mapped_file> open(const model_location& location, std::string_view name);

  mapped_file(mapped_file&& other) noexcept;
  mapped_file& operator=(mapped_file&& other) noexcept;
  ~mapped_file();

  [[nodiscard]] std::span<const std::byte> image() const noexcept { return {data_, size_}; }

  /// False once a read hit a page that the file no longer has. Lock-free; any thread.
  [[nodiscard]] bool intact() const noexcept;
  /// Compares size and modification time with those at open; one system call.
  [[nodiscard]] bool unchanged() const noexcept;

 private:
  mapped_file() = default;
  void close() noexcept;

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int descriptor_ = -1;
  int guard_ = -1;  ///< its row in the handler's table
  std::int64_t modified_seconds_ = 0;
  std::int64_t modified_nanoseconds_ = 0;
};

}  // namespace orcd::engine
